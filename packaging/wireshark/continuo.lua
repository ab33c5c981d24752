-- Wireshark dissector of Continuo's datagrams over UDP and TCP, docs/PROTOCOL.md section 3. Needs Wireshark 4.0 or later
-- and, in the same folder, its other files. docs/OPERATIONS.md says how to use it.
-- Without keys it shows headers, and the inside of what is only authenticated; with `capture_keys_file` in the preferences
-- also the inside of what is encrypted.
local folder = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local crypto = dofile(folder .. "continuo_crypto.lua")
local inside = dofile(folder .. "continuo_inside.lua")

local continuo = Proto("continuo", "Continuo tunnel")
local over_tcp = Proto("continuo_tcp", "Continuo over TCP")
local class_names = {[0] = "lt-ld", "ht-ld", "lt-hd", "ht-hd"}
local unsealed_names = {[1] = "VERSIONS", [2] = "UNKNOWN", [3] = "HELLO"}
local unknown_reasons = {"session", "epoch", "tag"}
local short_header_bytes, long_header_bytes, smallest_tag, largest_tag = 6, 8, 10, 16
local record_prefix, most_record = 2, 16384  -- PROTOCOL 3.7
local hello_signed_bytes, path_of_tcp = 9, 15
local most_depth = 3  -- tunnels inside of tunnels

local f = {
    version = ProtoField.uint8("continuo.version", "Version", base.DEC, nil, 0xf0),
    epoch = ProtoField.uint8("continuo.epoch", "Epoch, modulo 4", base.DEC, nil, 0x0c),
    class = ProtoField.uint8("continuo.class", "Class", base.DEC, class_names, 0x03),
    long = ProtoField.bool("continuo.long", "Long sequence number", 8, nil, 0x80),
    path = ProtoField.uint8("continuo.path", "Path", base.DEC, nil, 0x78),
    lane = ProtoField.uint8("continuo.lane", "Lane", base.DEC, nil, 0x07),
    session = ProtoField.uint16("continuo.session", "Session id", base.HEX),
    sequence_wire = ProtoField.uint32("continuo.sequence_wire", "Sequence number on the wire"),
    sequence = ProtoField.uint32("continuo.sequence", "Sequence number"),
    space = ProtoField.uint16("continuo.space", "Space number", base.HEX),
    direction = ProtoField.string("continuo.direction", "Direction"),
    whole_epoch = ProtoField.uint32("continuo.whole_epoch", "Epoch"),
    protection = ProtoField.string("continuo.protection", "Protection"),
    sealed = ProtoField.bytes("continuo.sealed", "Sealed body and tag"),
    body = ProtoField.bytes("continuo.body", "Body"),
    keepalive = ProtoField.none("continuo.keepalive", "Keepalive: empty body"),
    tag = ProtoField.bytes("continuo.tag", "Tag"),
    is_authentic = ProtoField.bool("continuo.authentic", "Tag is right"),
    unsealed_type = ProtoField.uint8("continuo.unsealed.type", "Type", base.DEC, unsealed_names, 0x0f),
    unsealed_reason = ProtoField.uint8("continuo.unsealed.reason", "Reason", base.DEC, unknown_reasons),
    quote = ProtoField.bytes("continuo.unsealed.quote", "Quote: first 6 and last 8 bytes of the cause"),
    supported = ProtoField.uint8("continuo.unsealed.supported", "Supported version"),
}
local t = {
    record_length = ProtoField.uint16("continuo.record.length", "Length"),
    version = ProtoField.uint8("continuo.hello.version", "Version"),
    epoch = ProtoField.uint8("continuo.hello.epoch", "Epoch, modulo 4"),
    number = ProtoField.uint32("continuo.hello.number", "Number of the connection"),
    tag = ProtoField.bytes("continuo.hello.tag", "Tag"),
}
local e = {
    malformed = ProtoExpert.new("continuo.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
    no_tag = ProtoExpert.new("continuo.wrong_tag", "No key of this session and epoch fits the tag", expert.group.CHECKSUM, expert.severity.WARN),
    unknown = ProtoExpert.new("continuo.not_followed", "Cannot be followed", expert.group.UNDECODED, expert.severity.NOTE),
    leftover = ProtoExpert.new("continuo.leftover", "Bytes of a later version", expert.group.PROTOCOL, expert.severity.WARN),
    fault = ProtoExpert.new("continuo.dissector_fault", "Fault of this dissector", expert.group.DEBUG, expert.severity.ERROR),
}
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
for _, field in pairs(inside.fields) do fields[#fields + 1] = field end
continuo.fields = fields
continuo.experts = {e.malformed, e.no_tag, e.unknown, e.leftover, e.fault}
over_tcp.fields = {t.record_length, t.version, t.epoch, t.number, t.tag}

local tag_choices = {{1, "found out (padded announcements)", 0}, {2, "16 bytes", 16}, {3, "10 bytes", 10}}
continuo.prefs.ports = Pref.range("Ports", "9347", "Ports of SNAPTs, UDP and TCP", 65535)
continuo.prefs.keys_file = Pref.string("Keys file", "", "What capture_keys_file of cnapt or snapt wrote")
continuo.prefs.readable_tag = Pref.enum("Tag of sessions that only authenticate", 0, "Without keys, their inside begins where the tag ends", tag_choices,
    false)
continuo.prefs.inner = Pref.bool("Dissect inner packets", true, "Hands the packets of the inside to the dissector of IP")

-- --- Keys: by session id and epoch modulo 4, a list, newest first

local keys, keys_read_at, keys_bytes = {}, 0, nil

local function read_keys()
    keys, keys_bytes = {}, nil
    local file = continuo.prefs.keys_file ~= "" and io.open(continuo.prefs.keys_file, "r")
    if not file then return end
    keys_bytes = file:seek("end")
    file:seek("set", 0)
    for line in file:lines() do
        local key = crypto.parse_key_line(line)
        if key then
            local id = key.session * 4 + key.epoch % 4
            keys[id] = keys[id] or {}
            table.insert(keys[id], 1, key)
        end
    end
    file:close()
end

-- The file grows while a capture runs.
local function keys_of(id)
    if not keys[id] and continuo.prefs.keys_file ~= "" and os.time() ~= keys_read_at then
        keys_read_at = os.time()
        local file = io.open(continuo.prefs.keys_file, "r")
        local size = file and file:seek("end")
        if file then file:close() end
        if size ~= keys_bytes then read_keys() end
    end
    return keys[id] or {}
end

-- --- What is known from the packets before

local highest   -- by stream and space: highest sequence number
local readable  -- by stream: bytes of the tag of a session that only authenticates
local records   -- by packet: what was found when it was first seen
local streams   -- by connection: "records", "other" (TLS, a question of 4.9) or "ended"
local segments  -- by packet: what its connection was when it was first seen, or false
local contexts  -- by stream, epoch and lane: flows (continuo_inside.lua)
local depth = 0

function continuo.init()
    highest, readable, records, streams, segments, contexts, depth = {}, {}, {}, {}, {}, {}, 0
    read_keys()
end

-- PROTOCOL 3.2: the number with these low bits in (ex - 2^15, ex + 2^15].
local function whole_sequence(low, expected)
    local window = 32768
    local candidate = expected - expected % 65536 + low
    if candidate <= expected - window then
        candidate = candidate + 65536
    elseif candidate > expected + window and candidate >= 65536 then
        candidate = candidate - 65536
    end
    return candidate
end

-- A padded announcement shows that the body is readable, and where the tag begins.
local function tag_of_padded(rest)
    local zeros = ("\0"):rep(64)
    for _, bytes in ipairs({smallest_tag, largest_tag}) do
        local body_end = #rest - bytes
        if body_end > 64 and rest:byte(1) >= 0x80 and rest:sub(body_end - 63, body_end) == zeros then return bytes end
    end
end

-- Keys and sequence number of a datagram, when it is first seen.
local function first_look(header, raw, stream)
    local space = header.class * 128 + header.path * 8 + header.lane
    local record = {space = space, resolved = {}}
    local function expected(counter) return (highest[counter .. space] or -1) + 1 end
    local rest = raw:sub(header.bytes + 1)
    local candidates = keys_of(header.session * 4 + header.epoch)
    for _, key in ipairs(candidates) do
        local counter = stream .. key.direction .. key.epoch .. ":"
        local sequence = header.long and header.low or whole_sequence(header.low, expected(counter))
        local body = crypto.open(key, space, sequence, raw:sub(1, header.bytes), rest)
        if body then
            record.key, record.body, record.tag_bytes, record.sequence, record.counter = key, body, key.tag_bytes, sequence, counter
            break
        end
    end
    record.has_keys = #candidates > 0
    if not record.key then
        record.counter = stream .. header.epoch .. ":"
        record.sequence = header.long and header.low or whole_sequence(header.low, expected(record.counter))
        local forced = continuo.prefs.readable_tag
        readable[stream] = forced ~= 0 and forced or readable[stream] or tag_of_padded(rest)
        local tag_bytes = not record.has_keys and readable[stream]
        if tag_bytes and #rest >= tag_bytes then
            record.body, record.tag_bytes = rest:sub(1, #rest - tag_bytes), tag_bytes
        end
    end
    local counter = record.counter .. space
    highest[counter] = math.max(highest[counter] or -1, record.sequence)
    return record
end

-- --- Datagrams

local function mark_malformed(tree, text)
    tree:add_proto_expert_info(e.malformed, text)
end

local function show_unsealed(tvb, tree, _, say)
    local kind = tvb(0, 1):uint()
    local name = unsealed_names[kind] or "unknown message"
    tree:add(f.version, tvb(0, 1))
    tree:add(f.unsealed_type, tvb(0, 1))
    tree:append_text(", " .. name)
    say("Unsealed " .. name)
    if kind == 1 and tvb:len() >= 16 and tvb:len() <= 23 then
        tree:add(f.quote, tvb(1, 14))
        local is_any = false
        for at = 15, tvb:len() - 1 do
            local pair = tvb(at, 1):uint()
            for _, version in ipairs({math.floor(pair / 16), pair % 16}) do
                if version ~= 0 then tree:add(f.supported, tvb(at, 1), version) end
                is_any = is_any or version ~= 0
            end
        end
        if not is_any then mark_malformed(tree, "VERSIONS without a version") end
    elseif kind == 2 and tvb:len() == 16 then
        tree:add(f.unsealed_reason, tvb(1, 1))
        tree:add(f.quote, tvb(2, 14))
    else
        mark_malformed(tree, "Not the length of an unsealed message, or a type that is not known")
    end
end

local function show_header(tvb, tree)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.epoch, tvb(0, 1))
    tree:add(f.class, tvb(0, 1))
    tree:add(f.long, tvb(1, 1))
    tree:add(f.path, tvb(1, 1))
    tree:add(f.lane, tvb(1, 1))
    tree:add(f.session, tvb(2, 2))
    local first, second = tvb(0, 1):uint(), tvb(1, 1):uint()
    local header = {epoch = math.floor(first / 4) % 4, class = first % 4, long = second >= 128, path = math.floor(second / 8) % 16,
        lane = second % 8, session = tvb(2, 2):uint()}
    header.bytes = header.long and long_header_bytes or short_header_bytes
    if tvb:len() < header.bytes then return nil end
    header.low = tvb(4, header.bytes - 4):uint()
    tree:add(f.sequence_wire, tvb(4, header.bytes - 4))
    return header
end

local function context_of(record, header, stream)
    local name = (record.key and record.counter or stream .. header.epoch .. ":") .. header.lane
    contexts[name] = contexts[name] or inside.new_context()
    return contexts[name]
end

-- The inside, in a view of its own. Its summary, for the column.
local function show_inside(record, header, stream, tvb, tree, pinfo)
    if #record.body == 0 then
        tree:add(f.keepalive)
        return "keepalive"
    end
    local view = record.key and not crypto.is_readable(record.key) and ByteArray.new(record.body, true):tvb("Body of the datagram")
        or tvb(header.bytes, #record.body):tvb()
    local branch = tree:add(f.body, view())
    local packets = {}
    local options = {record = record, context = context_of(record, header, stream), is_new = record.is_new, is_up = record.is_up,
        experts = e, packets = packets}
    local good, fault = pcall(inside.show, view, branch, options)
    if not good then
        if type(fault) == "table" then
            mark_malformed(branch, fault.malformed)
        else
            branch:add_proto_expert_info(e.fault, tostring(fault))
        end
    end
    if continuo.prefs.inner then
        local ip = Dissector.get("ip")
        local kept = {src = pinfo.src, dst = pinfo.dst, net_src = pinfo.net_src, net_dst = pinfo.net_dst,
            src_port = pinfo.src_port, dst_port = pinfo.dst_port, can_desegment = pinfo.can_desegment, desegment_len = pinfo.desegment_len,
            desegment_offset = pinfo.desegment_offset}
        for _, packet in ipairs(packets) do
            -- A failure of Wireshark's own dissectors, for instance at overlapping segments that they reassemble, is no fault of
            -- the datagram: it is shown in the tree, and the other packets follow.
            pcall(ip.call, ip, packet.tvb or ByteArray.new(packet.bytes, true):tvb("Inner packet"), pinfo, packet.tree)
        end
        if #packets > 0 then
            for name, value in pairs(kept) do pinfo[name] = value end
        end
    end
    return options.summary
end

local function show_sealed(tvb, tree, pinfo, say)
    local header = show_header(tvb, tree)
    if not header or tvb:len() < header.bytes + smallest_tag then
        mark_malformed(tree, "Shorter than header and tag")
        say("Too short")
        return
    end
    -- The addresses of a SNAPT stay while its nodes move; ids are chosen by each of them.
    local is_up = pinfo.match_uint == pinfo.dst_port
    local stream = header.session .. (is_up and ">" or "<") .. tostring(is_up and pinfo.dst or pinfo.src) .. ":"
    -- A segment of TCP has several; the tag tells them apart.
    local id = pinfo.number .. ":" .. depth .. ":" .. tvb:raw(tvb:len() - smallest_tag, smallest_tag)
    local record = records[id]
    if not record then
        record = first_look(header, tvb:raw(0, tvb:len()), stream)
        record.is_new = true
        records[id] = record
    end
    if record.key then
        record.is_up = record.key.direction == "up"
    else
        record.is_up = is_up
    end
    tree:add(f.sequence, tvb(4, header.bytes - 4), record.sequence):set_generated()
    tree:add(f.space, tvb(0, 2), record.space):set_generated()
    tree:append_text(string.format(", session %04x, %s, path %d, %d", header.session, class_names[header.class], header.path, record.sequence))
    local info = string.format("%04x %s path %d seq %d", header.session, class_names[header.class], header.path, record.sequence)
    local rest = tvb:len() - header.bytes
    tree:add(f.direction, record.is_up and "up" or "down"):set_generated()
    if record.key then
        tree:add(f.whole_epoch, record.key.epoch):set_generated()
        tree:add(f.protection, record.key.kind .. "/" .. record.key.tag_bytes):set_generated()
    end
    if record.body then
        local tag = tvb(header.bytes + rest - record.tag_bytes, record.tag_bytes)
        local summary = show_inside(record, header, stream, tvb, tree, pinfo)
        tree:add(f.tag, tag)
        if record.key then tree:add(f.is_authentic, tag, true):set_generated() end
        info = info .. (summary and ": " .. summary or "")
    else
        local item = tree:add(f.sealed, tvb(header.bytes))
        if record.has_keys then item:add_proto_expert_info(e.no_tag) end
        info = info .. ", " .. rest .. " bytes sealed"
    end
    record.is_new = false
    say(info)
end

-- `say`: takes the summary for the column.
local function show_datagram(tvb, pinfo, root, say)
    if tvb:len() == 0 or depth >= most_depth then return 0 end
    local version = math.floor(tvb(0, 1):uint() / 16)
    if version ~= 0 and version ~= 2 then return 0 end
    local tree = root:add(continuo, tvb())
    depth = depth + 1
    local good, fault
    if version == 0 then
        good, fault = pcall(show_unsealed, tvb, tree, pinfo, say)
    elseif tvb:len() < short_header_bytes then
        good = true
        tree:add(f.version, tvb(0, 1))
        mark_malformed(tree, "Shorter than a header")
        say("Too short")
    else
        good, fault = pcall(show_sealed, tvb, tree, pinfo, say)
    end
    depth = depth - 1
    if not good then tree:add_proto_expert_info(e.fault, tostring(fault)) end
    return tvb:len()
end

local function set_columns(pinfo, info)
    pinfo.cols.protocol:clear_fence()
    pinfo.cols.protocol:set("Continuo")
    pinfo.cols.info:clear_fence()
    pinfo.cols.info:set(info)
end

function continuo.dissector(tvb, pinfo, root)
    return show_datagram(tvb, pinfo, root, function(info) set_columns(pinfo, info) end)
end

-- --- TCP: records of a length and a datagram; the first of a node is a HELLO

local function show_hello(tvb, tree, pinfo, say)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.unsealed_type, tvb(0, 1))
    local tag_bytes = tvb:len() - hello_signed_bytes
    if tag_bytes ~= smallest_tag and tag_bytes ~= largest_tag then error({malformed = "Not the length of a HELLO"}) end
    local epoch, session = tvb(2, 1):uint(), tvb(3, 2):uint()
    tree:add(t.version, tvb(1, 1))
    tree:add(t.epoch, tvb(2, 1))
    tree:add(f.session, tvb(3, 2))
    tree:add(t.number, tvb(5, 4))
    local tag = tree:add(t.tag, tvb(hello_signed_bytes))
    say(string.format("%04x HELLO %d", session, tvb(5, 4):uint()))
    if tvb(1, 1):uint() ~= 2 then error({malformed = "HELLO of a version that is not known"}) end
    if epoch > 3 then error({malformed = "HELLO of an epoch that is none"}) end
    if pinfo.match_uint ~= pinfo.dst_port then error({malformed = "HELLO of a SNAPT"}) end
    local candidates = keys_of(session * 4 + epoch)
    for _, key in ipairs(candidates) do
        if key.direction == "up" and crypto.is_hello(key, tvb:raw(0, hello_signed_bytes), tvb:raw(hello_signed_bytes, tag_bytes)) then
            tree:add(f.is_authentic, tvb(hello_signed_bytes), true):set_generated()
            return
        end
    end
    if #candidates > 0 then tag:add_proto_expert_info(e.no_tag) end
end

local function show_record(tvb, pinfo, root, say)
    local length = tvb(0, record_prefix):uint()
    local tree = root:add(over_tcp, tvb(), "Continuo over TCP, record of " .. length .. " bytes")
    tree:add(t.record_length, tvb(0, record_prefix))
    if length == 0 or length > most_record then
        mark_malformed(tree, "Not the length of a record; it ends the connection")
        say("Malformed record")
        return
    end
    local content = tvb(record_prefix):tvb()
    local first = content(0, 1):uint()
    if first == 3 then
        local good, fault = pcall(show_hello, content, tree, pinfo, say)
        if not good and type(fault) == "table" then
            mark_malformed(tree, fault.malformed)
        elseif not good then
            tree:add_proto_expert_info(e.fault, tostring(fault))
        end
    elseif math.floor(first / 16) == 2 then
        show_datagram(content, pinfo, root, say)
    else
        mark_malformed(tree, "A record of neither a HELLO nor a datagram")
    end
end

-- The kind of a connection from one segment, perhaps the first one seen. `kind`: found before. Ports are reused, so the beginning
-- of another kind takes precedence.
local function kind_of(tvb, is_up, kind)
    local first = tvb(0, 1):uint()
    if tvb:len() < record_prefix + 2 then return kind or (is_up and first == 0 and "records" or nil) end
    local is_hello = first == 0 and tvb(record_prefix, 2):uint() == 0x0301
    if is_up and (is_hello or (first == 0 and not kind)) then return "records" end
    local is_hello_of_tls = first == 0x16 and tvb(1, 1):uint() == 3 and tvb:len() > 5 and tvb(5, 1):uint() == 1
    if is_up and is_hello_of_tls then return "other" end
    if kind then return kind end
    if (first >= 0x14 and first <= 0x17 and tvb(1, 1):uint() == 3) or first == 0x47 then return "other" end
    local length, datagram = tvb(0, record_prefix):uint(), tvb(record_prefix, 2)
    local index = math.floor(datagram(1, 1):uint() / 8) % 16
    if length >= short_header_bytes + smallest_tag and length <= most_record and math.floor(datagram(0, 1):uint() / 16) == 2
        and (index == path_of_tcp or not is_up) then
        return "records"
    end
end

function over_tcp.dissector(tvb, pinfo, root)
    if tvb:len() == 0 or depth >= most_depth then return 0 end
    local is_up = pinfo.match_uint == pinfo.dst_port
    local source, destination = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
    local name = is_up and source .. " " .. destination or destination .. " " .. source
    local id = pinfo.number .. ":" .. depth
    if segments[id] == nil then
        streams[name] = kind_of(tvb, is_up, streams[name])
        segments[id] = streams[name] or false
    end
    if segments[id] ~= "records" then return 0 end
    local said = {}
    local function say(info)
        said[#said + 1] = info
        set_columns(pinfo, table.concat(said, " | "))
    end
    local function bytes_of(view, _, at)
        local length = view(at, record_prefix):uint()
        if length > 0 and length <= most_record then return record_prefix + length end
        streams[name] = "ended"
        return view:len() - at
    end
    dissect_tcp_pdus(tvb, root, record_prefix, bytes_of, function(view, info, tree)
        show_record(view, info, tree, say)
        return view:len()
    end)
    return tvb:len()
end

-- On other ports: only what a key of the keys file fits.
local function is_ours(tvb, pinfo, root)
    if tvb:len() < short_header_bytes + smallest_tag or math.floor(tvb(0, 1):uint() / 16) ~= 2 then return false end
    local first = tvb(0, 1):uint()
    if not keys[tvb(2, 2):uint() * 4 + math.floor(first / 4) % 4] then return false end
    continuo.dissector(tvb, pinfo, root)
    return true
end
continuo:register_heuristic("udp", is_ours)

local tables = {{DissectorTable.get("udp.port"), continuo}, {DissectorTable.get("tcp.port"), over_tcp}}
local ports = continuo.prefs.ports
local function each_table(method)
    if ports == "" then return end
    for _, entry in ipairs(tables) do entry[1][method](entry[1], ports, entry[2]) end
end
each_table("add")
function continuo.prefs_changed()
    if ports ~= continuo.prefs.ports then
        each_table("remove")
        ports = continuo.prefs.ports
        each_table("add")
    end
    read_keys()
end
