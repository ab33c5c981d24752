-- Frames of Continuo (docs/PROTOCOL.md section 3.4) for continuo_inside.lua, and the cursor that both use.
-- Malformed input raises an error {malformed = TEXT}.
local bits = bit32 or bit
local band, rshift = bits.band, bits.rshift

local frame_names = {[0x80] = "PAD", [0x81] = "ACK", [0x82] = "COPY", [0x83] = "FLOOR", [0x84] = "GENERATION", [0x85] = "CONFIRM",
    [0x86] = "REFUSE", [0x87] = "FRAGMENT", [0x88] = "CHALLENGE", [0x89] = "RESPONSE", [0x8a] = "ANNOUNCE",
    [0x8c] = "PING", [0x8d] = "CLOSED", [0x8e] = "CAPS", [0xa1] = "CLOSE",
    [0xa3] = "ORDER"}
local class_names = {[0] = "lt-ld", "ht-ld", "lt-hd", "ht-hd"}
local link_kinds = {[0] = "unknown", "Ethernet", "Wi-Fi", "cellular", "mesh", "other"}
local refusals = {"hash differs", "memory", "base unknown"}
local most_sequence, slots, flow_indexes = 2 ^ 28 - 1, 1024, 65536
local ack_reach = 4096
local close_reasons = {[0] = "done", "draining", "replaced", "limit", "protocol error", "refused"}

local function number(abbreviation, name, values, mask)
    return ProtoField.uint32("continuo." .. abbreviation, name, base.DEC, values, mask)
end
local f = {
    frame = ProtoField.uint8("continuo.frame", "Frame", base.HEX, frame_names),
    space_class = number("frame.class", "Class", class_names),
    space_path = number("frame.path", "Path"),
    space_lane = number("frame.lane", "Lane"),
    before = ProtoField.bool("continuo.frame.epoch_before", "Of the epoch before"),
    sequence = number("frame.sequence", "Sequence number"),
    runs = number("frame.runs", "Runs"),
    ack_delay = number("ack.delay", "Delay, units of 8 µs"),
    ack_interval = number("ack.interval_ms", "Interval, ms"),
    ack_clock = number("ack.clock", "Clock at arrival, units of 8 µs, modulo 2^24"),
    ack_missing = number("ack.missing", "Numbers below that have not come"),
    received = ProtoField.string("continuo.ack.received", "Numbers, received only"),
    run = ProtoField.string("continuo.frame.run", "Numbers"),
    slot = number("slot", "Slot"),
    generation = number("generation", "Generation"),
    oldest = number("generation.oldest", "Oldest generation"),
    base_generation = number("generation.base", "Base"),
    keep = number("generation.keep", "Kept bytes of the base"),
    hash = ProtoField.bytes("continuo.generation.hash", "Hash"),
    listing = ProtoField.bytes("continuo.generation.listing", "Listing"),
    refusal = number("refuse.reason", "Reason", refusals),
    fragment_id = number("fragment.id", "Fragments' id"),
    fragment_index = number("fragment.index", "Fragment's index"),
    fragment_last = ProtoField.bool("continuo.fragment.last", "Last fragment"),
    piece = ProtoField.bytes("continuo.fragment.piece", "Piece, not joined"),
    token = ProtoField.bytes("continuo.token", "Token"),
    announced_path = number("announce.path", "Path"),
    announced_kind = number("announce.kind", "Uplink", link_kinds),
    announced_mtu = number("announce.mtu", "MTU"),
    active = ProtoField.bool("continuo.announce.active", "Active", 8, nil, 0x01),
    copies = ProtoField.bool("continuo.announce.copies", "Copies wanted", 8, nil, 0x02),
    withdrawn = ProtoField.bool("continuo.announce.withdrawn", "Withdrawn", 8, nil, 0x04),
    announcement = number("announce.number", "Announcement"),
    closed_flow = number("closed.flow", "Flow"),
    kept_bytes = number("caps.kept_bytes", "Kept bytes"),
    live_generations = number("caps.generations", "Live generations"),
    close_reason = number("close.reason", "Reason", close_reasons),
    close_text = ProtoField.string("continuo.close.text", "Text"),
    ordered_paths = ProtoField.uint16("continuo.order.paths", "Paths, bit n for path n", base.HEX),
    ordered_flow = number("order.flow", "Flow"),
    ordered_number = number("order.number", "Number in the flow"),
    content = ProtoField.bytes("continuo.frame.content", "Content"),
    leftover = ProtoField.bytes("continuo.frame.leftover", "Behind the known content"),
}

local function malformed(text) error({malformed = text}, 0) end

-- --- Reading, always forwards

local Cursor = {}
Cursor.__index = Cursor
local function new_cursor(tvb, at, limit) return setmetatable({tvb = tvb, at = at, limit = limit}, Cursor) end

function Cursor:left() return self.limit - self.at end
function Cursor:range(count)
    if count > self:left() then malformed("Ends early") end
    local range = self.tvb(self.at, count)
    self.at = self.at + count
    return range
end
function Cursor:number(count) return self:range(count):uint() end
function Cursor:varint()
    local value, factor = 0, 1
    for i = 1, 10 do
        local group = self:number(1)
        if group == 0 and i > 1 then malformed("A varint longer than it must be") end
        value, factor = value + group % 128 * factor, factor * 128
        if group < 128 then return value end
    end
    malformed("A varint above 64 bits")
end
-- The same, with the field in the tree. Values above 32 bits are shown as the largest.
function Cursor:add(tree, field, count)
    local from = self.at
    local value = count and self:number(count) or self:varint()
    tree:add(field, self.tvb(from, self.at - from), math.min(value, 4294967295))
    return value
end
function Cursor:bytes(tree, field, count)
    if count == 0 then return end
    tree:add(field, self:range(count))
end

-- A number of a space, at most 2^28 - 1 (PROTOCOL 2.4).
local function read_sequence(cursor, tree)
    local value = cursor:add(tree, f.sequence)
    if value > most_sequence then malformed("A sequence number above 2^28 - 1") end
    return value
end
local function read_slot(cursor, tree)
    local slot = cursor:add(tree, f.slot)
    if slot >= slots then malformed("A slot that is none") end
    return slot
end

-- `may_be_before`: of ACK. The space number.
local function read_space(cursor, tree, may_be_before)
    local from = cursor.at
    local first = cursor:number(1)
    local lane = first >= 128 and cursor:number(1) or 0
    if (first >= 128 and lane == 0) or lane > 7 then malformed("A lane that is none") end
    local range = cursor.tvb(from, cursor.at - from)
    tree:add(f.space_class, range, rshift(first, 4) % 4)
    tree:add(f.space_path, range, first % 16)
    tree:add(f.space_lane, range, lane)
    if band(first, 0x40) ~= 0 then
        if not may_be_before then malformed("A space of the epoch before") end
        tree:add(f.before, range, true)
    end
    return rshift(first, 4) % 4 * 128 + first % 16 * 8 + lane
end

local function add_run(cursor, tree, from, low, high, field)
    tree:add(field or f.run, cursor.tvb(from, cursor.at - from), low == high and tostring(low) or low .. " to " .. high)
end

-- --- Frames

local function read_times(cursor, tree)
    for _, field in ipairs({f.ack_delay, f.ack_interval}) do
        if cursor:add(tree, field) > 4294967295 then malformed("A time of ACK above 2^32 - 1") end
    end
    cursor:add(tree, f.ack_clock, 3)
end

local function read_ack(cursor, tree)
    read_space(cursor, tree, true)
    local high = read_sequence(cursor, tree)
    local least = math.max(0, high - ack_reach + 1)
    read_times(cursor, tree)
    if cursor:add(tree, f.ack_missing) > high then malformed("ACK of more missing than there are") end
    local count = cursor:add(tree, f.runs, 1)
    if count < 1 then malformed("ACK of no range") end
    local latest
    for i = 1, count do
        local from, gap = cursor.at, 0
        if i > 1 then
            gap = cursor:varint()
            high = high - gap - 1
        end
        local length = cursor:varint()
        local kind, low = length % 2, high - math.floor(length / 2)
        if low < least then malformed("ACK below 0 or its reach") end
        if i > 1 and gap == 0 and kind == latest then malformed("Ranges of ACK adjoin") end
        add_run(cursor, tree, from, low, high, kind == 1 and f.received or f.run)
        high, latest = low, kind
    end
end

-- Listings of a GENERATION, to the end: spaces in rising order, each with its runs.
local function read_listings(cursor, parent)
    local latest
    while cursor:left() > 0 do
        local begin = cursor.at
        local tree = parent:add(f.listing, cursor.tvb(begin, 1))
        local space = read_space(cursor, tree)
        if latest and space <= latest then malformed("Spaces of a listing out of order") end
        latest = space
        local low, high = cursor:varint(), nil
        local count = cursor:add(tree, f.runs, 1)
        if count == 0 then malformed("A listing of no run") end
        for i = 1, count do
            local from = cursor.at
            if i > 1 then low = high + cursor:varint() + 2 end
            high = low + cursor:varint()
            if high > most_sequence then malformed("A sequence number above 2^28 - 1") end
            add_run(cursor, tree, from, low, high)
        end
        tree:set_len(cursor.at - begin)
    end
end

local function read_generation(cursor, tree)
    local slot, generation = read_slot(cursor, tree), cursor:add(tree, f.generation, 1)
    if slot == 0 or generation == 0 then malformed("GENERATION of slot 0, or 0") end
    cursor:add(tree, f.oldest, 1)
    local limit = cursor:number(1) + cursor.at
    if limit > cursor.limit then malformed("Ends early") end
    local counted = new_cursor(cursor.tvb, cursor.at, limit)
    counted:add(tree, f.base_generation, 1)
    counted:add(tree, f.keep)
    counted:bytes(tree, f.hash, 4)
    read_listings(counted, tree)
    cursor.at = limit
end

local function read_fragment(cursor, tree, state)
    local id = cursor:number(2)
    local range = cursor.tvb(cursor.at - 2, 2)
    tree:add(f.fragment_id, range, id % 32768)
    local index = cursor:number(1)
    tree:add(f.fragment_index, cursor.tvb(cursor.at - 1, 1), rshift(index, 1))
    tree:add(f.fragment_last, cursor.tvb(cursor.at - 1, 1), index % 2 == 1)
    local is_counted = id >= 32768
    if is_counted and state.in_sections then malformed("A counted FRAGMENT behind a section") end
    local length = is_counted and cursor:varint() or cursor:left()
    if length == 0 then malformed("FRAGMENT of no piece") end
    cursor:bytes(tree, f.piece, length)
end

local function read_announce(cursor, tree)
    if cursor:add(tree, f.announced_path, 1) > 15 then malformed("ANNOUNCE of a path that is none") end
    cursor:add(tree, f.announced_kind, 1)
    cursor:add(tree, f.announced_mtu, 2)
    local flags = cursor:range(1)
    tree:add(f.active, flags)
    tree:add(f.copies, flags)
    tree:add(f.withdrawn, flags)
    if band(flags:uint(), 0x04) ~= 0 and band(flags:uint(), 0x03) ~= 0 then malformed("ANNOUNCE of a withdrawn path that is in use") end
    cursor:add(tree, f.announcement, 2)
end

local function read_flow(cursor, tree, field)
    local index = cursor:add(tree, field)
    if index >= flow_indexes then malformed("A flow index that is none") end
    return index
end

local function read_order(cursor, tree)
    cursor:add(tree, f.ordered_paths, 2)
    local count = cursor:number(1)
    if count < 1 or count > 16 then malformed("ORDER of no or too many flows") end
    local is_named = {}
    for _ = 1, count do
        local flow = read_flow(cursor, tree, f.ordered_flow)
        if is_named[flow] then malformed("ORDER that names a flow twice") end
        is_named[flow] = true
        cursor:add(tree, f.ordered_number, 2)
    end
end

local readers = {
    [0x80] = function(cursor) cursor:range(cursor:left()) end,
    [0x81] = read_ack,
    [0x82] = function(cursor, tree, state)
        if state.has_frames then malformed("COPY behind another frame") end
        read_space(cursor, tree)
        read_sequence(cursor, tree)
    end,
    [0x83] = function(cursor, tree, state)
        local space, floor = read_space(cursor, tree), read_sequence(cursor, tree)
        if space == state.record.space and floor > state.record.sequence then malformed("FLOOR above the datagram's own number") end
    end,
    [0x84] = read_generation,
    [0x85] = function(cursor, tree) read_slot(cursor, tree) cursor:add(tree, f.generation, 1) end,
    [0x86] = function(cursor, tree) read_slot(cursor, tree) cursor:add(tree, f.generation, 1) cursor:add(tree, f.refusal, 1) end,
    [0x87] = read_fragment,
    [0x88] = function(cursor, tree) cursor:bytes(tree, f.token, 8) end,
    [0x89] = function(cursor, tree) cursor:bytes(tree, f.token, 8) end,
    [0x8a] = read_announce,
    [0x8c] = function() end,
    [0x8d] = function(cursor, tree)
        local count = cursor:number(1)
        if count < 1 or count > 32 then malformed("CLOSED of no or too many flows") end
        for _ = 1, count do read_flow(cursor, tree, f.closed_flow) end
    end,
    [0x8e] = function(cursor, tree) cursor:add(tree, f.kept_bytes, 4) cursor:add(tree, f.live_generations, 1) end,
    [0xa1] = function(cursor, tree) cursor:add(tree, f.close_reason, 1) cursor:bytes(tree, f.close_text, cursor:left()) end,
    [0xa3] = read_order,
}

local function read_frame(cursor, parent, state)
    local from = cursor.at
    local kind = cursor:number(1)
    local name = frame_names[kind] or string.format("frame %02x", kind)
    local tree = parent:add(f.frame, cursor.tvb(from, 1))
    state.names[#state.names + 1] = name
    if state.in_sections and kind ~= 0x87 then malformed(name .. " behind a section") end
    if kind >= 0xa0 and kind <= 0xbf then
        local counted = cursor:varint()
        if counted > cursor:left() then malformed("Ends early") end
        local content = new_cursor(cursor.tvb, cursor.at, cursor.at + counted)
        if not readers[kind] then
            content:bytes(tree, f.content, content:left())
        else
            readers[kind](content, tree, state)
            if content:left() > 0 then
                local item = tree:add(f.leftover, content:range(content:left()))
                item:add_proto_expert_info(state.experts.leftover, "Behind what is known of " .. name .. "; a receiver ignores it")
            end
        end
        cursor.at = content.limit
    elseif readers[kind] then
        readers[kind](cursor, tree, state)
    else
        malformed("A frame of unknown type")
    end
    state.has_frames = true
    tree:set_len(cursor.at - from)
end

return {fields = f, slots = slots, new_field = number, malformed = malformed, new_cursor = new_cursor, read = read_frame}
