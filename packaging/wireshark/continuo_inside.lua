-- The body of a datagram of Continuo for continuo.lua: frames, sections and entries (docs/PROTOCOL.md sections 3.3 to 3.5
-- and 6.3 to 6.5). Entries are followed as a receiver does that gets all datagrams in the order of the capture, so that
-- headers that were left out are put back; the node's own address is not on the wire and stays 0.0.0.0 or ::.
-- Compressed sections are expanded if they use no history between datagrams (generation 0), else named.
local folder = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local frames = dofile(folder .. "continuo_frames.lua")
local expand = dofile(folder .. "continuo_zstd.lua")
local malformed, new_cursor, number = frames.malformed, frames.new_cursor, frames.new_field
local bits = bit32 or bit
local band, bor, bxor, lshift, rshift = bits.band, bits.bor, bits.bxor, bits.lshift, bits.rshift
local char = string.char

-- Default of the limit that control tells.
local most_plaintext = 65536

local modes = {[0] = "raw, not kept", "raw, kept", "zstd", "reserved"}
local flow_kinds = {[0] = "UDP", "RTP", "echo request", "echo reply", "TCP", "TCP with timestamps"}
local entry_kinds = {whole = "WHOLE", open = "OPEN", context = "OPEN, no packet", first = "first entry", later = "later entry"}
local f = {
    slot = frames.fields.slot,
    generation = frames.fields.generation,
    section = ProtoField.bytes("continuo.section", "Section"),
    mode = number("section.mode", "Mode", modes),
    section_length = number("section.length", "Length"),
    compressed = ProtoField.bytes("continuo.section.compressed", "Compressed content"),
    rest = ProtoField.bytes("continuo.section.rest", "Rest of the section"),
    entry = ProtoField.string("continuo.entry", "Entry"),
    flow = number("entry.flow", "Flow"),
    flow_kind = number("entry.kind", "Kind", flow_kinds),
    reference = number("entry.reference", "Reference"),
    sets = ProtoField.bool("continuo.entry.set", "SET"),
    app = number("entry.app", "Application tag"),
    payload_length = number("entry.payload_length", "Payload length"),
    payload = ProtoField.bytes("continuo.entry.payload", "Payload"),
}

local inside = {fields = {}}
for _, field in pairs(frames.fields) do inside.fields[#inside.fields + 1] = field end
for name, field in pairs(f) do
    if not frames.fields[name] then inside.fields[#inside.fields + 1] = field end
end

-- --- Inner packets, put together from what is known of the flow

local function be16(value) return char(rshift(value, 8) % 256, value % 256) end
local function be32(value) return be16(rshift(value, 16) % 65536) .. be16(band(value, 65535)) end

local function checksum(text)
    if #text % 2 == 1 then text = text .. "\0" end
    local sum = 0
    for i = 1, #text, 2 do sum = sum + text:byte(i) * 256 + text:byte(i + 1) end
    while sum > 65535 do sum = sum % 65536 + math.floor(sum / 65536) end
    return 65535 - sum
end

local function transport_of(flow, values, payload)
    if flow.is_tcp then
        local options = flow.kind == 5 and char(1, 1, 8, 10) .. be32(values.timestamp_value) .. be32(values.timestamp_echo) or ""
        return 6, be16(flow.source) .. be16(flow.destination) .. be32(values.sequence) .. be32(values.acknowledgement)
            .. char((20 + #options) * 4, values.flags) .. be16(values.window), be16(0) .. options .. payload
    elseif flow.is_echo then
        local kind = flow.is_v6 and (flow.kind == 2 and 128 or 129) or (flow.kind == 2 and 8 or 0)
        return flow.is_v6 and 58 or 1, char(kind, 0), be16(flow.source) .. be16(values.sequence) .. payload
    end
    return 17, be16(flow.source) .. be16(flow.destination) .. be16(8 + #payload), payload
end

-- `is_up`: the node is the source.
local function packet_of(flow, values, payload, is_up)
    local node = flow.is_v6 and ("\0"):rep(16) or ("\0"):rep(4)
    local source, destination = is_up and node or flow.remote, is_up and flow.remote or node
    local protocol, before, behind = transport_of(flow, values, payload)
    local length = #before + 2 + #behind
    local has_pseudo = protocol ~= 1
    local sum = checksum((has_pseudo and source .. destination .. be32(length) .. be32(protocol) or "") .. before .. be16(0) .. behind)
    if protocol == 17 then sum = flow.has_no_checksum and 0 or (sum == 0 and 65535 or sum) end
    local transport = before .. be16(sum) .. behind
    if flow.is_v6 then
        return be32(bor(0x60000000, lshift(values.tos, 20), flow.label)) .. be16(length) .. char(protocol, values.ttl) .. source .. destination .. transport
    end
    local first = char(0x45, values.tos) .. be16(20 + length) .. be16(values.ip_id) .. be16(flow.dont_fragment and 0x4000 or 0) .. char(values.ttl, protocol)
    local addresses = source .. destination
    return first .. be16(checksum(first .. be16(0) .. addresses)) .. addresses .. transport
end

-- --- Entries

-- The value with these low bytes in [reference - 2^(8k-2), reference + 3 * 2^(8k-2)).
local function from_offset(low, reference, count)
    local window = 256 ^ count
    local first = reference - window / 4
    return first + (low - first) % window
end
local function read_offset(cursor, reference, count, width)
    local low = cursor:number(count)
    return count == width and low or from_offset(low, reference, count) % 256 ^ width
end
local function read_zigzag(cursor)
    local coded = cursor:varint()
    return coded % 2 == 0 and coded / 2 or -(coded + 1) / 2
end
local function has(mask, bit) return band(mask, bit) ~= 0 end

local function copy_of(values)
    local copy = {}
    for name, value in pairs(values) do copy[name] = value end
    return copy
end

local function read_first_plain(cursor, flow, mask, values)
    if flow.is_echo then values.sequence = read_offset(cursor, values.sequence, has(mask, 0x40) and 2 or 1, 2) end
    if not flow.is_v6 then values.ip_id = read_offset(cursor, values.ip_id, has(mask, 0x04) and 2 or 1, 2) end
    local length = has(mask, 0x01) and cursor:varint() or values.payload
    if has(mask, 0x08) then values.tos, values.ttl = cursor:number(1), cursor:number(1) end
    return has(mask, 0x02) and cursor:left() or length, has(mask, 0x80)
end

local function read_first_tcp(cursor, flow, mask, values)
    local extra = has(mask, 0x80) and cursor:number(1) or 0
    local width = mask % 4
    if width > 0 then values.sequence = read_offset(cursor, values.sequence, width + 1, 4) end
    width = rshift(mask, 2) % 4
    if width > 0 then values.acknowledgement = read_offset(cursor, values.acknowledgement, width + 1, 4) end
    if flow.kind == 5 then
        width = has(extra, 0x10) and 4 or has(mask, 0x10) and 2 or 1
        values.timestamp_value = read_offset(cursor, values.timestamp_value, width, 4)
        values.timestamp_echo = read_offset(cursor, values.timestamp_echo, width, 4)
    end
    if not flow.is_v6 then values.ip_id = read_offset(cursor, values.ip_id, has(extra, 0x04) and 2 or 1, 2) end
    local length = has(mask, 0x20) and cursor:varint() or 0
    if has(extra, 0x01) then values.flags = cursor:number(1) end
    if has(extra, 0x40) then values.flags = bxor(values.flags, 0x08) end
    if has(extra, 0x02) then values.window = cursor:number(2) end
    if has(extra, 0x08) then values.tos, values.ttl = cursor:number(1), cursor:number(1) end
    return has(mask, 0x40) and cursor:left() or length, has(extra, 0x20)
end

local function read_later(cursor, flow, mask, values)
    local length = has(mask, 0x01) and cursor:varint() or values.payload
    if not flow.is_v6 then values.ip_id = has(mask, 0x04) and cursor:number(2) or (values.ip_id + 1) % 65536 end
    if flow.is_tcp then
        values.sequence = (values.sequence + values.payload) % 4294967296
        if has(mask, 0x08) then values.sequence = cursor:number(4) end
        if has(mask, 0x10) then values.acknowledgement = (values.acknowledgement + read_zigzag(cursor)) % 4294967296 end
        if has(mask, 0x20) then
            values.timestamp_value = (values.timestamp_value + read_zigzag(cursor)) % 4294967296
            values.timestamp_echo = (values.timestamp_echo + read_zigzag(cursor)) % 4294967296
        end
        if has(mask, 0x40) then values.window = (values.window + read_zigzag(cursor)) % 65536 end
        if has(mask, 0x80) then values.flags = cursor:number(1) end
    elseif flow.is_echo then
        values.sequence = has(mask, 0x08) and cursor:number(2) or (values.sequence + 1) % 65536
    end
    return has(mask, 0x02) and cursor:left() or length
end

local function new_flow(kind)
    local basic = kind % 8
    return {kind = basic, is_v6 = kind >= 8, is_tcp = basic == 4 or basic == 5, is_echo = basic == 2 or basic == 3, references = {}}
end

-- The reference of an entry, resolved when its datagram is first seen and kept for later visits.
local function resolve(state, find)
    state.ordinal = state.ordinal + 1
    local kept = state.record.resolved[state.ordinal]
    if kept == nil then
        kept = find() or false
        state.record.resolved[state.ordinal] = kept
    end
    return kept
end

local function show_packet(state, tree, flow, values, range)
    local payload = range and range:raw() or ""
    if range then tree:add(f.payload, range) end
    if #payload <= 65455 then
        state.packets[#state.packets + 1] = {bytes = packet_of(flow, values, payload, state.is_up), tree = tree}
    end
end

local function finish(cursor, state, tree, index, flow, values, length)
    tree:add(f.payload_length, length):set_generated()
    local range = length > 0 and cursor:range(length) or nil
    values.payload = length
    state.latest[index] = {flow = flow, values = values}
    show_packet(state, tree, flow, values, range)
end

local function read_static(cursor, state, flow, values, kind_bits)
    if has(kind_bits, 0x04) then
        local model_index, port = cursor:varint(), cursor:number(2)
        local model = resolve(state, function() return state.context[model_index] end)
        if not model then return false end
        for _, name in ipairs({"remote", "source", "destination", "dont_fragment", "has_no_checksum", "label"}) do flow[name] = model[name] end
        flow[has(kind_bits, 0x08) and "destination" or "source"] = port
        values.tos, values.ttl, flow.app = model.tos, model.ttl, model.app
        return true
    end
    flow.remote = cursor:range(flow.is_v6 and 16 or 4):raw()
    flow.source = cursor:number(2)
    flow.destination = flow.is_echo and 0 or cursor:number(2)
    if flow.is_v6 then
        flow.label = cursor:number(3) % 1048576
    else
        local flags = cursor:number(1)
        flow.dont_fragment, flow.has_no_checksum = has(flags, 0x01), has(flags, 0x02)
    end
    values.tos, values.ttl = cursor:number(1), cursor:number(1)
    flow.app = math.floor(cursor:varint() / 2)
    return true
end

local function read_open(cursor, state, tree, kind_bits)
    local is_context = has(kind_bits, 0x08) and not has(kind_bits, 0x04)
    local flow = new_flow(rshift(kind_bits, 4))
    local values = {sequence = 0, acknowledgement = 0, timestamp_value = 0, timestamp_echo = 0, ip_id = 0, window = 0, flags = 0, payload = 0}
    local index = cursor:add(tree, f.flow)
    tree:append_text(": " .. entry_kinds[is_context and "context" or "open"] .. ", flow " .. index .. ", " .. (flow_kinds[flow.kind] or "unknown"))
    tree:add(f.flow_kind, flow.kind):set_generated()
    if flow.kind == 1 or flow.kind > 5 then return "of a kind that this dissector does not follow" end
    if not read_static(cursor, state, flow, values, kind_bits) then return "made after a flow that is not known" end
    tree:add(f.app, flow.app):set_generated()
    local coded = is_context and 1 or cursor:varint()
    if not flow.is_v6 then values.ip_id = cursor:number(2) end
    if flow.is_echo then values.sequence = cursor:number(2) end
    if flow.is_tcp then
        values.flags, values.sequence, values.acknowledgement, values.window = cursor:number(1), cursor:number(4), cursor:number(4), cursor:number(2)
        if flow.kind == 5 then values.timestamp_value, values.timestamp_echo = cursor:number(4), cursor:number(4) end
    end
    flow.tos, flow.ttl = values.tos, values.ttl
    if has(kind_bits, 0x02) then
        tree:add(f.sets, true):set_generated()
        state.changes[#state.changes + 1] = function()
            state.context[index] = flow
            flow.references = {[0] = copy_of(values)}
        end
    end
    if is_context then
        state.latest[index] = {flow = flow, values = values}
    else
        finish(cursor, state, tree, index, flow, values, coded == 0 and cursor:left() or coded - 1)
    end
end

-- Reads one entry. A text: why the rest of the section cannot be read.
local function read_entry(cursor, state, parent)
    local from = cursor.at
    local tree = parent:add(f.entry, cursor.tvb(from, 1), "")
    tree:set_text("Entry")
    local first = cursor:number(1)
    local index = first % 64
    local reason
    if index == 63 then
        if first ~= 63 then malformed("Mask or reference on an entry with a subtype") end
        local kind_bits = cursor:number(1)
        if kind_bits == 0 then
            local length = cursor:varint()
            tree:append_text(": WHOLE, " .. length .. " bytes")
            if length == 0 then malformed("An empty packet") end
            state.packets[#state.packets + 1] = {tvb = cursor:range(length):tvb(), tree = tree}
        elseif kind_bits % 2 == 1 then
            reason = read_open(cursor, state, tree, kind_bits)
        else
            malformed("An entry of unknown subtype")
        end
    else
        if index == 62 then index = 62 + cursor:varint() end
        local later = state.latest[index]
        local reference = has(first, 0x40) and 1 or 0
        tree:append_text(": " .. entry_kinds[later and "later" or "first"] .. ", flow " .. index)
        tree:add(f.flow, index):set_generated()
        local base_of = later or resolve(state, function()
            local flow = state.context[index]
            local values = flow and flow.references[reference]
            return values and {flow = flow, values = copy_of(values)}
        end)
        if not base_of then
            reason = "of a flow or reference that is not known (opened before the capture, or in a compressed section)"
        else
            local flow, values = base_of.flow, copy_of(base_of.values)
            tree:append_text(", " .. flow_kinds[flow.kind])
            tree:add(f.flow_kind, flow.kind):set_generated()
            local mask = has(first, 0x80) and cursor:number(1) or 0
            local length, sets
            if later then
                length = read_later(cursor, flow, mask, values)
            else
                tree:add(f.reference, reference):set_generated()
                length, sets = (flow.is_tcp and read_first_tcp or read_first_plain)(cursor, flow, mask, values)
            end
            if sets then
                tree:add(f.sets, true):set_generated()
                state.changes[#state.changes + 1] = function() flow.references[1 - reference] = copy_of(values) end
            end
            finish(cursor, state, tree, index, flow, values, length)
        end
    end
    state.entries = state.entries + 1
    tree:set_len(cursor.at - from)
    return reason
end

-- --- Sections

local function read_section(cursor, parent, state)
    local from = cursor.at
    local first = cursor:number(1)
    local mode, slot = rshift(first, 4) % 4, first % 16
    if mode == 3 then malformed("A section of the reserved mode") end
    local tree = parent:add(f.section, cursor.tvb(from, 1))
    if slot == 15 then slot = 15 + cursor:varint() end
    if slot >= frames.slots then malformed("A slot that is none") end
    tree:add(f.mode, cursor.tvb(from, 1), mode)
    tree:add(f.slot, cursor.tvb(from, cursor.at - from), slot)
    local generation = mode == 2 and cursor:add(tree, f.generation, 1) or 0
    if slot == 0 and (mode == 1 or generation ~= 0) then malformed("Slot 0 keeps nothing") end
    local length = first >= 64 and cursor:left() or cursor:add(tree, f.section_length)
    if length == 0 or length > cursor:left() then malformed("A section of no content, or beyond the body") end
    local content = new_cursor(cursor.tvb, cursor.at, cursor.at + length)
    tree:set_text("Section, slot " .. slot .. ", " .. modes[mode] .. ", " .. length .. " bytes")
    tree:set_len(content.limit - from)
    cursor.at = content.limit
    state.in_sections, state.latest = true, {}
    if mode == 2 then
        local range = content:range(length)
        local item = tree:add(f.compressed, range)
        if generation ~= 0 then
            item:add_proto_expert_info(state.experts.unknown, "Compressed with a history that this dissector does not build")
            state.has_unread = true
            return
        end
        local plain = resolve(state, function() return expand(range:raw(), most_plaintext) end)
        if #plain == 0 then malformed("A section of no content") end
        local view = ByteArray.new(plain, true):tvb("Expanded section")
        tree:append_text(", " .. #plain .. " expanded")
        content = new_cursor(view, 0, #plain)
    end
    while content:left() > 0 do
        local reason = read_entry(content, state, tree)
        if reason then
            local item = content:left() > 0 and tree:add(f.rest, content:range(content:left())) or tree
            item:add_proto_expert_info(state.experts.unknown, "An entry " .. reason)
            state.has_unread = true
            return
        end
    end
end

-- --- Bodies

-- Flows of one direction and lane of an epoch, by index.
function inside.new_context() return {} end

-- Shows the body that is `view`, adds its packets to options.packets and says what is in it in options.summary.
function inside.show(view, tree, options)
    local state = {names = {}, entries = 0, ordinal = 0, latest = {}, changes = {}, record = options.record, context = options.context,
        packets = options.packets, is_up = options.is_up, experts = options.experts}
    local cursor = new_cursor(view, 0, view:len())
    local function read_all()
        while cursor:left() > 0 do
            if view(cursor.at, 1):uint() >= 0x80 then
                frames.read(cursor, tree, state)
            else
                read_section(cursor, tree, state)
            end
        end
    end
    local good, fault = pcall(read_all)
    local parts = state.names
    if state.entries > 0 then parts[#parts + 1] = state.entries .. (state.entries == 1 and " entry" or " entries") end
    if state.has_unread then parts[#parts + 1] = "part not readable" end
    options.summary = table.concat(parts, ", ")
    if not good then error(fault, 0) end
    if options.is_new then
        -- Unread datagrams may have set any reference.
        if state.has_unread then
            for _, flow in pairs(state.context) do flow.references = {} end
        end
        for _, change in ipairs(state.changes) do change() end
    end
end

return inside
