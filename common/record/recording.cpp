#include "common/record/recording.hpp"

#include "common/base/log.hpp"

#include <cstdio>
#include <cstring>

namespace continuo::record {

using base::log;
using base::LogLevel;

namespace {

std::string reason_of(const base::Error& error) {
    return error.sys_errno != 0 ? std::strerror(error.sys_errno) : std::string(error.where);
}

bool open_one(std::string_view key,
              const std::string& path,
              bool append,
              io::UniqueFd& file,
              config::Diagnostic& complaint) {
    if (path.empty()) {
        return true;
    }
    auto opened = io::open_private_file(path, append);
    if (!opened) {
        complaint.message = config::quote(key) + " is " + config::quote(path) +
                            ", which cannot be written: " + reason_of(opened.error());
        complaint.expected = "a file in a directory that is there";
        return false;
    }
    file = std::move(*opened);
    return true;
}

std::string_view name_of(control::ProtectionKind kind) {
    switch (kind) {
    case control::ProtectionKind::Aes256Gcm:
        return "aes-256-gcm";
    case control::ProtectionKind::ChaCha20Poly1305:
        return "chacha20-poly1305";
    case control::ProtectionKind::HmacSha256:
        break;
    }
    return "hmac-sha256";
}

std::string hex_of(base::ByteView bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint8_t octet : bytes) {
        text += kDigits[octet >> 4U];
        text += kDigits[octet & 0x0FU];
    }
    return text;
}

std::string key_line(uint16_t session,
                     std::string_view direction,
                     const KeyNames& names,
                     uint32_t epoch,
                     const control::DirectionKeys& keys) {
    std::array<uint8_t, 2> id{};
    base::store_big_endian(id.data(), session);
    std::string line = "continuo_key " + hex_of(id) + " " + std::to_string(epoch) + " ";
    line.append(direction).append(" ").append(name_of(names.protection.kind));
    line += "/" + std::to_string(names.protection.tag_bytes);
    return line + " " + hex_of(keys.key) + " " + hex_of(keys.iv) + "\n";
}

}  // namespace

std::optional<RecordingFiles> open_recording(const config::DebugConfig& debug,
                                             const std::string& config_file,
                                             config::Diagnostic& complaint) {
    RecordingFiles files;
    complaint.file = config_file;
    const auto stand_at = [&complaint](const config::Place& place) {
        complaint.line = place.line;
        complaint.column = place.column;
    };
    stand_at(debug.capture_file_place);
    if (!open_one("capture_file", debug.capture_file, false, files.capture, complaint)) {
        return std::nullopt;
    }
    stand_at(debug.capture_keys_file_place);
    if (!open_one("capture_keys_file", debug.capture_keys_file, true, files.keys, complaint)) {
        return std::nullopt;
    }
    return files;
}

std::string key_lines(const KeyNames& names, const control::EpochKeys& keys) {
    return key_line(names.wire_session_up, "up", names, keys.epoch, keys.up) +
           key_line(names.wire_session_down, "down", names, keys.epoch, keys.down);
}

void KeyExport::add(const KeyNames& names, const control::EpochKeys& keys) {
    const auto done = io::append_text(file_, key_lines(names, keys));
    if (!done && !has_failed_) {
        has_failed_ = true;
        log(LogLevel::Error, "%s: %s; keys are missing in it", path_.c_str(),
            reason_of(done.error()).c_str());
    }
}

Recorders::Recorders(io::EventLoop& loop,
                     const config::DebugConfig& debug,
                     RecordingFiles files,
                     const std::string& inner_name) {
    if (files.capture.is_open()) {
        log(LogLevel::Warning, "every packet goes to %s, up to %llu bytes",
            debug.capture_file.c_str(), static_cast<unsigned long long>(debug.capture_limit_bytes));
        packets_.emplace(
            loop, std::move(files.capture),
            PacketRecorderOptions{debug.capture_file, debug.capture_limit_bytes, inner_name});
    }
    if (files.keys.is_open()) {
        log(LogLevel::Warning,
            "keys of the tunnel go to %s: who has them reads and forges its datagrams",
            debug.capture_keys_file.c_str());
        keys_.emplace(std::move(files.keys), debug.capture_keys_file);
    }
}

void Recorders::stop() {
    packets_.reset();
    keys_.reset();
}

}  // namespace continuo::record
