#!/usr/bin/env bash
# The dissector of packaging/wireshark reads each test vector as PROTOCOL says: every field of every frame and unsealed
# message, bodies that are void, records of TCP, however segments cut them.
. "$(dirname "$0")/lib.sh"
require tshark
export WIRESHARK_CONFIG_DIR=$work HOME=$work
dissector=$(cd "$lib_dir/../../packaging/wireshark" && pwd)/continuo.lua
are_shown_right() { "$python" "$support_dir/dissector_vectors.py" "$1" "$dissector" "$work"; }
claim "headers of datagrams are shown right" are_shown_right headers
claim "each frame with all its fields" are_shown_right frames
claim "whole bodies, frames and sections" are_shown_right bodies
claim "what voids a body is marked, and so is what is behind a frame's known content" are_shown_right void
claim "VERSIONS and UNKNOWN" are_shown_right unsealed
claim "HELLO" are_shown_right hello
claim "records of TCP, over segments and joined in one; TLS and HTTP on the port are left alone" are_shown_right records
finish
