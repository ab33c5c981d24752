// The recordings of [debug]: the capture of packets and the export of datagram keys. Files are
// opened before rights are given up, so that they may lie where only root writes.
#pragma once

#include "common/config/debug_section.hpp"
#include "common/control/epoch_keys.hpp"
#include "common/record/packet_recorder.hpp"

#include <optional>
#include <string>

namespace continuo::record {

struct RecordingFiles {
    io::UniqueFd capture;
    io::UniqueFd keys;
};
// Empties the capture file and opens the keys file for appending, each only if configured. Nothing,
// with the fault of `config_file` in `complaint`, if one cannot be opened.
std::optional<RecordingFiles> open_recording(const config::DebugConfig& debug,
                                             const std::string& config_file,
                                             config::Diagnostic& complaint);

// The name of an epoch's keys on the wire.
struct KeyNames {
    uint16_t wire_session_up = 0;
    uint16_t wire_session_down = 0;
    control::ProtectionOffer protection;
};
// Two lines of the keys file, one a direction (docs/OPERATIONS.md):
//   continuo_key SESSION EPOCH up|down KIND/TAG_BYTES KEY IV
std::string key_lines(const KeyNames& names, const control::EpochKeys& keys);

// `capture_keys_file`. Writes at once: it happens once per epoch.
class KeyExport {
  public:
    KeyExport(io::UniqueFd file, std::string path)
        : file_(std::move(file)), path_(std::move(path)) {}
    // A failure is logged once.
    void add(const KeyNames& names, const control::EpochKeys& keys);

  private:
    io::UniqueFd file_;
    std::string path_;
    bool has_failed_ = false;
};

// For the data path; null: not wanted.
struct Recording {
    PacketRecorder* packets = nullptr;
    KeyExport* keys = nullptr;
};

// Owns both. Data loop.
class Recorders {
  public:
    // `loop` must outlive this. Warns that it records.
    Recorders(io::EventLoop& loop,
              const config::DebugConfig& debug,
              RecordingFiles files,
              const std::string& inner_name);

    Recording recording() { return {packets_ ? &*packets_ : nullptr, keys_ ? &*keys_ : nullptr}; }
    // Ends the files.
    void stop();

  private:
    std::optional<PacketRecorder> packets_;
    std::optional<KeyExport> keys_;
};

}  // namespace continuo::record
