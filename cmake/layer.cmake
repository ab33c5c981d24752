# continuo_layer(NAME [UNFUZZED] [SOURCES ...] [FUZZED ...] [HEADERS ...] [DEPS layer...] [PRIVATE_LIBS ...] [PUBLIC_LIBS ...])
# One library a folder: target continuo_NAME; a room of a daemon is continuo_<daemon>_<room>. DEPS are other layers; what is
# not listed cannot be linked, and tests/check_layers.py refuses the include.
add_library(continuo_options INTERFACE)
target_include_directories(continuo_options INTERFACE ${CMAKE_SOURCE_DIR})
if(NOT CONTINUO_COUNT)
  target_compile_definitions(continuo_options INTERFACE CONTINUO_UNCOUNTED)
endif()
target_compile_options(continuo_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wformat=2
  -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough)
# g++ 12 sees overlapping copies in std::string concatenation that are not there (GCC bug 105651).
target_compile_options(continuo_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(CONTINUO_WERROR)
  target_compile_options(continuo_options INTERFACE -Werror)
endif()
if(CONTINUO_SANITIZE)
  target_compile_options(continuo_options INTERFACE -fsanitize=${CONTINUO_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(continuo_options INTERFACE -fsanitize=${CONTINUO_SANITIZE})
  find_program(CONTINUO_GOLD ld.gold)  # links such programs in a third of the time
  mark_as_advanced(CONTINUO_GOLD)
  if(CONTINUO_GOLD)
    target_link_options(continuo_options INTERFACE -fuse-ld=gold)
  endif()
endif()

# Headers that nearly every file of the layers includes, compiled once: reading them is a third of a file's cost. Each file still
# includes what it uses: presets without this option, and tests/check_tidy.sh, compile without it. g++ loses libstdc++'s diagnostic
# pragmas in there: if it wrongly reports an overflow in std::string("a") + (b ? "c" : "d") + "e", name the part first.
set(CONTINUO_HEADERS <algorithm> <array> <bit> <chrono> <concepts> <cstdint> <cstdio> <cstdlib> <cstring> <functional>
  <memory> <optional> <span> <string> <string_view> <utility> <variant> <vector>)
if(CONTINUO_PRECOMPILE)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/layer_headers.cpp CONTENT "")
  add_library(continuo_layer_headers OBJECT ${CMAKE_BINARY_DIR}/layer_headers.cpp)
  target_link_libraries(continuo_layer_headers PRIVATE continuo_options)
  target_precompile_headers(continuo_layer_headers PRIVATE ${CONTINUO_HEADERS})
endif()

# So that libFuzzer sees the branches of the layers and not of its target alone. What -fsanitize=fuzzer has besides, a
# call at each comparison, makes the tests of the same build twice as slow.
set(CONTINUO_COVERAGE -fsanitize-coverage=inline-8bit-counters,pc-table)

# For a layer with FUZZED, of a daemon: libFuzzer needs these sources alone, and the tests in virtual time none. To optimise
# the others, or to count their branches, would take longer than their tests. UNFUZZED: a daemon's layer without such sources.
function(continuo_fuzz_sources name)
  cmake_parse_arguments(ARG "" "" "FUZZED;HEADERS" ${ARGN})
  target_compile_options(continuo_${name} PRIVATE -O0 -g1)
  if(CONTINUO_PRECOMPILE)
    target_precompile_headers(continuo_${name} PRIVATE ${CONTINUO_HEADERS} ${ARG_HEADERS})
  endif()
  set_source_files_properties(${ARG_FUZZED} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-O1;${CONTINUO_COVERAGE}")
endfunction()

# continuo_unity(TARGET): with CONTINUO_UNITY, eight of its files are compiled as one, which reads their headers and makes
# their templates once. These stand apart: their names in unnamed namespaces are those of files beside them.
set(CONTINUO_APART
  classifier/ruleset.cpp cnapt/bypass/portal_control.cpp cnapt/bypass/portal_probe.cpp cnapt/doctor/doctor_login.cpp
  cnapt/doctor/doctor_network.cpp cnapt/names/name_lookup.cpp cnapt/names/resolv_file.cpp cnapt/settings/node_config.cpp
  common/flow/index_allocator.cpp common/netlink/netlink_route.cpp common/host/privileges.cpp common/netlink/rule_monitor.cpp
  common/io/udp_socket.cpp common/host/unix_server.cpp common/host/unix_socket.cpp common/netlink/wireless_monitor.cpp
  common/packet/context_fields.cpp common/packet/reply.cpp common/packet/rewrite.cpp common/report/status_report.cpp
  common/routing/path_set.cpp snapt/accounting/usage_json.cpp snapt/cli.cpp snapt/cli_users.cpp
  snapt/ledger/ledger.cpp snapt/store/time_zone.cpp snapt/store/user_store.cpp snapt/users/user_commands.cpp
  tests/support/session_pair.cpp tests/unit/classifier/ruleset_test.cpp tests/unit/cnapt/node/udp_throttle_test.cpp
  tests/unit/config/debug_section_test.cpp tests/unit/daemon/handler_gate_test.cpp
  tests/unit/dataplane/session_driver_test.cpp tests/unit/flow/flow_wheel_test.cpp tests/unit/netlink/netlink_route_test.cpp
  tests/unit/netfilter/nft_test.cpp tests/unit/process/process_lookup_test.cpp tests/unit/host/tun_device_test.cpp
  tests/unit/io/udp_socket_test.cpp tests/unit/netlink/route_set_test.cpp tests/unit/netlink/wireless_monitor_test.cpp
  tests/unit/snapt/nat/nat_test.cpp tests/unit/snapt/relay/relay_input_test.cpp tests/unit/support/link_model_test.cpp
  tests/unit/wire/tunnel_header_test.cpp tests/unit/wire/unsealed_test.cpp)
function(continuo_unity target)
  if(NOT CONTINUO_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    if(path IN_LIST CONTINUO_APART)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

function(continuo_layer name)
  cmake_parse_arguments(ARG "UNFUZZED" "" "SOURCES;FUZZED;HEADERS;DEPS;PRIVATE_LIBS;PUBLIC_LIBS" ${ARGN})
  if(ARG_SOURCES)
    add_library(continuo_${name} STATIC ${ARG_SOURCES})
    continuo_unity(continuo_${name})
    if(CONTINUO_FUZZ AND ARG_FUZZED)
      continuo_fuzz_sources(${name} FUZZED ${ARG_FUZZED} HEADERS ${ARG_HEADERS})
    elseif(CONTINUO_FUZZ AND ARG_UNFUZZED)
      target_compile_options(continuo_${name} PRIVATE -O0 -g1)
    elseif(CONTINUO_PRECOMPILE)
      target_precompile_headers(continuo_${name} REUSE_FROM continuo_layer_headers)
    endif()
    if(CONTINUO_FUZZ AND NOT ARG_FUZZED AND NOT ARG_UNFUZZED)
      target_compile_options(continuo_${name} PRIVATE ${CONTINUO_COVERAGE})
    endif()
    set(scope PUBLIC)
    target_link_libraries(continuo_${name} PRIVATE ${ARG_PRIVATE_LIBS})
  else()
    add_library(continuo_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(continuo_${name} ${scope} continuo_options ${ARG_PUBLIC_LIBS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(continuo_${name} ${scope} continuo_${dep})
  endforeach()
endfunction()

# continuo_daemon(NAME SOURCES ... FUZZED ... HEADERS ... DEPS ...): library continuo_NAME (all but main.cpp, for tests) and program NAME.
function(continuo_daemon name)
  continuo_layer(${name} ${ARGN})
  add_executable(${name} main.cpp)
  target_link_libraries(${name} PRIVATE continuo_${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  # For tests/bench/run: figures are those of a program, which may be older than the tree.
  set(sanitizers)
  if(CONTINUO_SANITIZE)
    set(sanitizers ": ${CONTINUO_SANITIZE}")
  endif()
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM COMMAND ${CMAKE_COMMAND}
    -D SOURCE=${CMAKE_SOURCE_DIR} -D TARGET=$<TARGET_FILE:${name}>.built
    "-DBUILD=$<CONFIG> ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}${sanitizers}"
    -P ${CMAKE_SOURCE_DIR}/cmake/built_from.cmake)
  install(TARGETS ${name} RUNTIME DESTINATION sbin)
endfunction()

# Headers that nearly every test includes, compiled once. Each test still includes what it uses.
function(continuo_test_headers)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cpp CONTENT "int main() {}\n")
  # A program, as they are: position-independent code of libraries is compiled with other options.
  add_executable(continuo_test_headers ${CMAKE_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(continuo_test_headers PRIVATE continuo_options GTest::gtest)
  target_compile_options(continuo_test_headers PRIVATE -O0 -g1)
  target_precompile_headers(continuo_test_headers PRIVATE
    <algorithm> <array> <chrono> <functional> <map> <memory> <optional> <span> <string> <variant> <vector> <gtest/gtest.h>)
endfunction()

# continuo_test(NAME LABEL SOURCES ... DEPS ...): one GoogleTest program, one ctest entry.
function(continuo_test name label)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  continuo_unity(${name})
  target_link_libraries(${name} PRIVATE continuo_options GTest::gtest GTest::gtest_main)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE continuo_${dep})
  endforeach()
  target_compile_definitions(${name} PRIVATE CONTINUO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(label STREQUAL "unit")
    # Optimising the tests themselves takes longer than running them.
    target_compile_options(${name} PRIVATE -O0 -g1)
    target_precompile_headers(${name} REUSE_FROM continuo_test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label})
endfunction()

# continuo_fuzz(NAME SOURCES ... DEPS ...): a libFuzzer target; its corpus is tests/fuzz/corpus/NAME.
function(continuo_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE continuo_options)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE continuo_${dep})
  endforeach()
endfunction()
