#include "common/report/table.hpp"
#include "snapt/commands/statement_command.hpp"

#include <array>

namespace continuo::snapt::commands {
namespace {

using accounting::AccountStatement;

constexpr std::string_view kHead = R"(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
p { margin: 0 0 .6rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: 1.2rem 0 .3rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8886; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
.text { white-space: normal; }
td { font-variant-numeric: tabular-nums; }
tr.sum > * { font-weight: 600; border-bottom: 2px solid; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } div { overflow: visible; } tr { break-inside: avoid; } }
</style>
)";

std::string escaped(std::string_view text) {
    std::string html;
    for (const char c : text) {
        switch (c) {
        case '&':
            html += "&amp;";
            break;
        case '<':
            html += "&lt;";
            break;
        case '>':
            html += "&gt;";
            break;
        case '"':
            html += "&quot;";
            break;
        default:
            html += c;
        }
    }
    return html;
}

std::string bytes_text(int64_t bytes) {
    return report::format_signed_bytes(bytes);
}

using Cells = std::vector<std::string>;

std::string html_row(const Cells& cells, std::string_view kind = "") {
    std::string html = kind.empty() ? "<tr>" : "<tr class=\"" + std::string(kind) + "\">";
    for (size_t i = 0; i < cells.size(); ++i) {
        const std::string tag = i == 0 ? "th scope=\"row\"" : "td";
        html += "<" + tag + ">" + escaped(cells[i]) + (i == 0 ? "</th>" : "</td>");
    }
    return html + "</tr>\n";
}

std::string head_of(std::string_view caption, const Cells& names) {
    std::string html = "<div><table><caption>" + std::string(caption) + "</caption>\n<thead><tr>";
    for (const std::string& name : names) {
        html += "<th scope=\"col\">" + escaped(name) + "</th>";
    }
    return html + "</tr></thead>\n<tbody>\n";
}

constexpr std::string_view kEnd = "</tbody></table></div>\n";

Cells usage_cells(std::string name, const ledger::ChargeSums& sums) {
    return {std::move(name),
            bytes_text(sums.pay_up),
            bytes_text(sums.pay_down),
            bytes_text(sums.pre - sums.post),
            report::format_denarii(sums.gross_ud),
            report::format_denarii(sums.discount_ud),
            report::format_denarii(sums.net_ud())};
}

std::string usage_table(const AccountStatement& statement) {
    std::string html = head_of(
        "Usage", {"Class", "Payload up", "Payload down", "Saved", "Gross", "Discount", "Net"});
    for (const accounting::StatementUsage& usage : statement.usage) {
        html += html_row(usage_cells(class_name(usage.cls), usage.sums));
    }
    html += html_row(usage_cells("all", statement.total), "sum");
    if (statement.late.records > 0) {
        html += html_row(usage_cells("booked late", statement.late));
    }
    return html + std::string(kEnd);
}

std::string bookings_table(const AccountStatement& statement) {
    std::string html =
        head_of("Payments and corrections", {"Time (UTC)", "What", "Reference", "Note", "Amount"});
    for (const store::MoneyEntry& entry : statement.bookings) {
        html += html_row({report::format_utc(entry.at_us / store::kUsPerSecond),
                          std::string(booking_name(entry.kind)), entry.ref, entry.note,
                          report::format_denarii(entry.amount_ud)});
    }
    if (statement.further_bookings > 0) {
        html += html_row({std::to_string(statement.further_bookings) + " further ones", "", "", "",
                          report::format_denarii(statement.further_ud)});
    }
    return html + std::string(kEnd);
}

}  // namespace

std::string statement_page(const AccountStatement& statement) {
    const std::string title =
        "Statement of " + escaped(statement.account.user) + ", " + escaped(statement.month);
    std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>" + title +
                       "</title>\n" + std::string(kHead) + "</head>\n<body>\n<main>\n<h1>" + title +
                       "</h1>\n<p>Account " + std::to_string(statement.account.id) +
                       ", time zone " + escaped(statement.zone) + ". Amounts in denarii.</p>\n";
    html += usage_table(statement);
    if (!statement.bookings.empty()) {
        html += bookings_table(statement);
    }
    html += head_of("Balance", {"", "Denarii"});
    html += html_row({"before", report::format_denarii(statement.opening_ud)});
    html += html_row({"usage", report::format_denarii(statement.usage_ud)});
    html += html_row({"discount", report::format_denarii(statement.discount_ud)});
    if (statement.late_ud != 0) {
        html += html_row({"usage booked late", report::format_denarii(statement.late_ud)});
    }
    if (statement.rerated_ud != 0) {
        html += html_row({"usage rated again", report::format_denarii(statement.rerated_ud)});
    }
    int64_t booked_ud = statement.further_ud;
    for (const store::MoneyEntry& entry : statement.bookings) {
        booked_ud += entry.amount_ud;
    }
    html += html_row({"payments and corrections", report::format_denarii(booked_ud)});
    html += html_row({"after", report::format_denarii(statement.closing_ud)}, "sum");
    return html + std::string(kEnd) + "</main>\n</body>\n</html>\n";
}

}  // namespace continuo::snapt::commands
