-- Frames of Continuo (docs/PROTOCOL.md section 3.4) for continuo_inside.lua, and the cursor that both read with. What is
-- wrong raises an error {malformed = TEXT}.
local bits = bit32 or bit
local band, rshift = bits.band, bits.rshift

local frame_names = {[0x80] = "PAD", [0x81] = "ACK", [0x82] = "COPY", [0x83] = "FLOOR", [0x84] = "GENERATION", [0x85] = "CONFIRM",
    [0x86] = "REFUSE", [0x87] = "FRAGMENT", [0x88] = "CHALLENGE", [0x89] = "RESPONSE", [0x8a] = "ANNOUNCE", [0x8b] = "TIME",
    [0x8c] = "PING", [0x8d] = "CLOSED", [0x8e] = "CAPS", [0xa0] = "REPORT", [0xa1] = "CLOSE",
    [0xa3] = "ORDER"}
local class_names = {[0] = "lt-ld", "ht-ld", "lt-hd", "ht-hd"}
local link_kinds = {[0] = "unknown", "Ethernet", "Wi-Fi", "cellular", "mesh", "other"}
local refusals = {"hash differs", "memory", "base unknown"}
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
    clock = number("time.clock", "Clock, units of 100 µs"),
    closed_flow = number("closed.flow", "Flow"),
    kept_bytes = number("caps.kept_bytes", "Kept bytes"),
    live_generations = number("caps.generations", "Live generations"),
    interval = number("report.interval_ms", "Interval, ms"),
    report_bytes = number("report.bytes", "Bytes"),
    report_datagrams = number("report.datagrams", "Datagrams"),
    lost = number("report.lost", "Lost"),
    late = number("report.late", "Late"),
    duplicates = number("report.duplicates", "Duplicates"),
    delay_smallest = number("report.delay_smallest", "Smallest delay, units of 100 µs, modulo 2^16"),
    delay_mean = number("report.delay_mean", "Mean delay, units of 100 µs, modulo 2^16"),
    delay_echo = number("report.delay_echo", "Newest TIME"),
    delay_held = number("report.delay_held", "Held, units of 100 µs"),
    close_reason = number("close.reason", "Reason", close_reasons),
    close_text = ProtoField.string("continuo.close.text", "Text"),
    ordered_paths = ProtoField.uint16("continuo.order.paths", "Paths, bit n for path n", base.HEX),
    ordered_flow = number("order.flow", "Flow"),
    ordered_number = number("order.number", "Number in the flow"),
    content = ProtoField.bytes("continuo.frame.content", "Content"),
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

local function read_space(cursor, tree)
    local from = cursor.at
    local first = cursor:number(1)
    local lane = first >= 128 and cursor:number(1) or 0
    if (first >= 128 and lane == 0) or lane > 7 then malformed("A lane that is none") end
    local range = cursor.tvb(from, cursor.at - from)
    tree:add(f.space_class, range, rshift(first, 4) % 4)
    tree:add(f.space_path, range, first % 16)
    tree:add(f.space_lane, range, lane)
    if band(first, 0x40) ~= 0 then tree:add(f.before, range, true) end
end

-- --- Frames

local function read_ack(cursor, tree)
    read_space(cursor, tree)
    local high = cursor:add(tree, f.sequence)
    local count = cursor:add(tree, f.runs, 1)
    if count < 1 or count > 12 then malformed("ACK of no or too many runs") end
    for i = 1, count do
        local from = cursor.at
        if i > 1 then high = high - cursor:varint() - 2 end
        local low = high - cursor:varint()
        if low < 0 then malformed("ACK below 0") end
        tree:add(f.run, cursor.tvb(from, cursor.at - from), low == high and tostring(low) or low .. " to " .. high)
        high = low
    end
end

local function read_fragment(cursor, tree)
    local id = cursor:number(2)
    local range = cursor.tvb(cursor.at - 2, 2)
    tree:add(f.fragment_id, range, id % 32768)
    local index = cursor:number(1)
    tree:add(f.fragment_index, cursor.tvb(cursor.at - 1, 1), rshift(index, 1))
    tree:add(f.fragment_last, cursor.tvb(cursor.at - 1, 1), index % 2 == 1)
    cursor:bytes(tree, f.piece, id >= 32768 and cursor:varint() or cursor:left())
end

local function read_report(cursor, tree)
    local flags = cursor:number(1)
    read_space(cursor, tree)
    for _, field in ipairs({f.sequence, f.interval, f.report_bytes, f.report_datagrams, f.lost, f.late, f.duplicates}) do
        cursor:add(tree, field)
    end
    if flags % 2 == 1 then
        cursor:add(tree, f.delay_smallest, 2)
        cursor:add(tree, f.delay_mean, 2)
        cursor:add(tree, f.delay_echo, 3)
        cursor:add(tree, f.delay_held)
    end
end

local readers = {
    [0x80] = function(cursor) cursor:range(cursor:left()) end,
    [0x81] = read_ack,
    [0x82] = function(cursor, tree) read_space(cursor, tree) cursor:add(tree, f.sequence) end,
    [0x83] = function(cursor, tree) read_space(cursor, tree) cursor:add(tree, f.sequence) end,
    [0x84] = function(cursor, tree)
        cursor:add(tree, f.slot)
        cursor:add(tree, f.generation, 1)
        cursor:add(tree, f.oldest, 1)
        local limit = cursor:number(1) + cursor.at
        if limit > cursor.limit then malformed("Ends early") end
        local counted = new_cursor(cursor.tvb, cursor.at, limit)
        counted:add(tree, f.base_generation, 1)
        counted:add(tree, f.keep)
        counted:bytes(tree, f.hash, 4)
        counted:bytes(tree, f.listing, counted:left())
        cursor.at = limit
    end,
    [0x85] = function(cursor, tree) cursor:add(tree, f.slot) cursor:add(tree, f.generation, 1) end,
    [0x86] = function(cursor, tree) cursor:add(tree, f.slot) cursor:add(tree, f.generation, 1) cursor:add(tree, f.refusal, 1) end,
    [0x87] = read_fragment,
    [0x88] = function(cursor, tree) cursor:bytes(tree, f.token, 8) end,
    [0x89] = function(cursor, tree) cursor:bytes(tree, f.token, 8) end,
    [0x8a] = function(cursor, tree)
        cursor:add(tree, f.announced_path, 1)
        cursor:add(tree, f.announced_kind, 1)
        cursor:add(tree, f.announced_mtu, 2)
        local flags = cursor:range(1)
        tree:add(f.active, flags)
        tree:add(f.copies, flags)
        tree:add(f.withdrawn, flags)
        cursor:add(tree, f.announcement, 2)
    end,
    [0x8b] = function(cursor, tree) cursor:add(tree, f.clock, 3) end,
    [0x8c] = function() end,
    [0x8d] = function(cursor, tree)
        local count = cursor:number(1)
        if count < 1 or count > 32 then malformed("CLOSED of no or too many flows") end
        for _ = 1, count do cursor:add(tree, f.closed_flow) end
    end,
    [0x8e] = function(cursor, tree) cursor:add(tree, f.kept_bytes, 4) cursor:add(tree, f.live_generations, 1) end,
    [0xa0] = read_report,
    [0xa1] = function(cursor, tree) cursor:add(tree, f.close_reason, 1) cursor:bytes(tree, f.close_text, cursor:left()) end,
    [0xa3] = function(cursor, tree)
        cursor:add(tree, f.ordered_paths, 2)
        local count = cursor:number(1)
        if count < 1 or count > 16 then malformed("ORDER of no or too many flows") end
        for _ = 1, count do cursor:add(tree, f.ordered_flow) cursor:add(tree, f.ordered_number, 2) end
    end,
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
        if readers[kind] then readers[kind](content, tree) end
        content:bytes(tree, f.content, content:left())
        cursor.at = content.limit
    elseif readers[kind] then
        readers[kind](cursor, tree)
    else
        malformed("A frame of unknown type")
    end
    tree:set_len(cursor.at - from)
end

return {fields = f, new_field = number, malformed = malformed, new_cursor = new_cursor, read = read_frame}
