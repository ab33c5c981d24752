#include "common/daemon/doctor_files.hpp"

#include "common/host/privileges.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include <sys/stat.h>

namespace continuo::daemon {

using report::Finding;
using report::Verdict;

namespace {

using Status = struct stat;

std::string with_mode(const std::string& path, const Status& status) {
    std::array<char, 16> text{};
    const int length = std::snprintf(text.data(), text.size(), " (mode %04o)",
                                     static_cast<unsigned>(status.st_mode & 07777U));
    return path + std::string(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
}

class FileChecks {
  public:
    explicit FileChecks(const CheckedFiles& files) : files_(files) {}

    std::vector<Finding> run() {
        for (const std::string& path : files_.secrets) {
            check_secret(path);
        }
        for (const std::string& path : files_.kept) {
            check_secret(path);
        }
        for (const std::string& path : files_.read) {
            check_writable(path);
        }
        check_state();
        check_socket();
        check_service_user();
        if (found_.empty() && !unseen_.empty()) {
            add(Verdict::Skipped, unseen_ + " cannot be checked by this user", "run it as root");
        }
        return std::move(found_);
    }

  private:
    // The status of a file; nothing when it is not there.
    std::optional<Status> status_of(const std::string& path) {
        Status status{};
        if (::stat(path.c_str(), &status) == 0) {
            return status;
        }
        if (errno == EACCES) {
            unseen_ = path;
        }
        return std::nullopt;
    }

    void add(Verdict verdict, std::string found, std::string remedy) {
        found_.push_back({verdict, "files", std::move(found), std::move(remedy)});
    }

    void check_secret(const std::string& path) {
        const auto status = status_of(path);
        if (!status) {
            return;
        }
        if ((status->st_mode & S_IROTH) != 0) {
            add(Verdict::Fail, with_mode(path, *status) + " holds keys and everybody can read it",
                "chmod o= " + path + ", and take new keys if this host has other users");
        } else if ((status->st_mode & S_IRGRP) != 0 && status->st_gid != 0 &&
                   host::command_group() == status->st_gid) {
            add(Verdict::Warn,
                with_mode(path, *status) + " holds keys and the group of the commands can read it",
                std::string("chgrp ") + files_.user + " " + path);
        }
        check_writable(path);
    }

    void check_writable(const std::string& path) {
        const auto status = status_of(path);
        if (status && (status->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
            add(Verdict::Fail,
                with_mode(path, *status) + " can be written by others than its owner",
                "chmod go-w " + path);
        }
    }

    void check_state() {
        const auto status = status_of(files_.state);
        if (!status) {
            return;  // it is made at the start
        }
        if (!S_ISDIR(status->st_mode)) {
            add(Verdict::Fail, files_.state + " is no folder", "name another --state");
        } else if ((status->st_mode & S_IWOTH) != 0) {
            add(Verdict::Fail, with_mode(files_.state, *status) + " can be written by everybody",
                "chmod o-w " + files_.state);
        }
    }

    void check_socket() {
        const auto status = status_of(files_.socket);
        if (status && S_ISSOCK(status->st_mode) && (status->st_mode & S_IWOTH) != 0) {
            add(Verdict::Fail,
                with_mode(files_.socket, *status) + " lets everybody use the commands",
                "chmod o= " + files_.socket);
        }
    }

    void check_service_user() {
        const std::string obstacle = host::service_obstacle(
            {files_.secrets, files_.state, files_.socket, "/dev/net/tun", files_.user});
        if (!obstacle.empty()) {
            add(Verdict::Warn, obstacle + ", so the daemon stays root",
                std::string("give it to the group ") + files_.user + ", mode 0640 (folders 0750)");
        }
    }

    const CheckedFiles& files_;
    std::vector<Finding> found_;
    std::string unseen_;  // one of those that may not be looked at
};

}  // namespace

void check_files(const CheckedFiles& files, report::Findings& findings) {
    std::vector<Finding> found = FileChecks(files).run();
    if (found.empty()) {
        findings.ok("files", "owners and modes are right");
    }
    for (Finding& finding : found) {
        findings.add(std::move(finding));
    }
}

}  // namespace continuo::daemon
