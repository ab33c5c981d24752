#include "common/io/delayed_writer.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::io {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr unsigned kPrivate = 0600;

// 0, or errno.
int write_all(int fd, base::ByteView bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : ENOSPC;
        }
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return 0;
}

}  // namespace

Result<UniqueFd> open_private_file(const std::string& path, bool append) {
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    UniqueFd file(::open(path.c_str(), flags | (append ? O_APPEND : 0), kPrivate));
    struct stat state {};
    if (!file.is_open() || ::fstat(file.value(), &state) != 0) {
        return Error{Errc::System, "open", errno};
    }
    if (!S_ISREG(state.st_mode)) {
        return Error{Errc::InvalidState, "not a regular file"};
    }
    if (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? Error{Errc::InvalidState, "another process writes it"}
                                    : Error{Errc::System, "lock", errno};
    }
    if (::fchmod(file.value(), kPrivate) != 0 || (!append && ::ftruncate(file.value(), 0) != 0)) {
        return Error{Errc::System, "open", errno};
    }
    return file;
}

Result<void> append_text(const UniqueFd& file, std::string_view text) {
    const int error =
        write_all(file.value(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return error == 0 ? Result<void>() : Error{Errc::System, "write", error};
}

DelayedWriter::DelayedWriter(EventLoop& loop, UniqueFd file, std::function<void(int)> on_failure)
    : loop_(loop)
    , file_(std::move(file))
    , on_failure_(std::move(on_failure))
    , timer_(loop, [this] { flush(); })
    , worker_(std::make_unique<WorkerThread>(loop, "capture-file", 1)) {
    for (Buffer& buffer : buffers_) {
        buffer.bytes = std::make_unique<uint8_t[]>(kDelayedBytes);
    }
}

DelayedWriter::~DelayedWriter() {
    finish();
}

int DelayedWriter::finish() {
    if (worker_ == nullptr) {
        return 0;
    }
    worker_.reset();
    timer_.set(base::kNever);
    if (is_writing_ && !is_done_) {
        write(buffers_[1 - filling_]);  // it was still waiting
    }
    if (error_ == 0 && !has_failed_) {
        write(buffers_[filling_]);
    }
    const bool is_news = error_ != 0 && !has_failed_;
    has_failed_ = true;
    return is_news ? error_.load() : 0;
}

base::MutableByteView DelayedWriter::reserve(size_t bytes) {
    if (buffers_[filling_].used >= kDelayedEnough) {
        flush();
    }
    Buffer& buffer = buffers_[filling_];
    if (has_failed_ || bytes > kDelayedBytes - buffer.used) {
        return {};
    }
    if (buffer.used == 0) {
        timer_.set(loop_.now() + kLongestDelay);
    }
    const base::MutableByteView place(buffer.bytes.get() + buffer.used, bytes);
    buffer.used += bytes;
    return place;
}

void DelayedWriter::flush() {
    Buffer& full = buffers_[filling_];
    if (is_writing_ || has_failed_ || full.used == 0) {
        return;  // on_written() goes on
    }
    is_writing_ = true;
    is_done_ = false;
    if (!worker_->submit([this, &full] { write(full); }, [this] { on_written(); })) {
        is_writing_ = false;
        timer_.set(loop_.now() + kLongestDelay);
        return;
    }
    filling_ = 1 - filling_;
}

// Whole blocks or nothing: a partial write is undone.
void DelayedWriter::write(Buffer& buffer) {
    const off_t before = ::lseek(file_.value(), 0, SEEK_CUR);
    const int error = write_all(file_.value(), {buffer.bytes.get(), buffer.used});
    if (error != 0 && before >= 0) {
        static_cast<void>(::ftruncate(file_.value(), before));
    }
    error_ = error;
    buffer.used = 0;
    is_done_ = true;
}

void DelayedWriter::on_written() {
    is_writing_ = false;
    if (const int error = error_; error != 0) {
        has_failed_ = true;
        timer_.set(base::kNever);
        on_failure_(error);
        return;
    }
    if (buffers_[filling_].used >= kDelayedEnough) {
        flush();
    } else if (buffers_[filling_].used != 0) {
        timer_.set(loop_.now() + kLongestDelay);
    }
}

}  // namespace continuo::io
