-- Expands compressed sections of Continuo (docs/PROTOCOL.md section 7.1) for continuo_inside.lua: the content of one
-- compressed block of zstd (RFC 8878 section 3.1.1.3), without a dictionary. Malformed input raises an error {malformed = TEXT}.
local byte, char, floor = string.byte, string.char, math.floor

local most_literals = 131072

local function malformed(text) error({malformed = "zstd: " .. text}, 0) end

local function highest_bit(value)
    local bit = 0
    while value >= 2 do value, bit = floor(value / 2), bit + 1 end
    return bit
end

-- `count` bits of the text from bit `at` on, little-endian; bits outside of it are 0.
local function bits_at(text, at, count)
    if at < 0 then
        if count + at <= 0 then return 0 end
        return bits_at(text, 0, count + at) * 2 ^ -at
    end
    local first = floor(at / 8)
    local skipped = at - first * 8
    local value, factor = 0, 1
    for i = first + 1, first + math.ceil((skipped + count) / 8) do
        value, factor = value + (byte(text, i) or 0) * factor, factor * 256
    end
    return floor(value / 2 ^ skipped) % 2 ^ count
end

-- Bits of a stream that is read from its end.
local function backward(text)
    local last = #text > 0 and byte(text, #text) or 0
    if last == 0 then malformed("a stream without end") end
    local stream = {at = #text * 8 - 8 + highest_bit(last)}
    function stream.read(count)
        stream.at = stream.at - count
        return bits_at(text, stream.at, count)
    end
    return stream
end

-- --- FSE (RFC 8878 section 4.1)

local function fse_table(counts, accuracy)
    local size = 2 ^ accuracy
    local high, next_of, cells = size, {}, {}
    for symbol = 0, #counts do
        if counts[symbol] == -1 then
            high = high - 1
            cells[high], next_of[symbol] = {symbol = symbol}, 1
        end
    end
    local step, at = floor(size / 2) + floor(size / 8) + 3, 0
    for symbol = 0, #counts do
        if counts[symbol] > 0 then
            next_of[symbol] = counts[symbol]
            for _ = 1, counts[symbol] do
                cells[at] = {symbol = symbol}
                repeat at = (at + step) % size until at < high
            end
        end
    end
    if at ~= 0 then malformed("a table that does not close") end
    for i = 0, size - 1 do
        local cell = cells[i]
        local next_state = next_of[cell.symbol]
        next_of[cell.symbol] = next_state + 1
        cell.bits = accuracy - highest_bit(next_state)
        cell.base = next_state * 2 ^ cell.bits - size
    end
    cells.accuracy = accuracy
    return cells
end

-- A table's description at byte `from` (count from 1). Gives the table and the byte behind it.
local function read_fse(text, from, most_accuracy, most_symbol)
    local at = (from - 1) * 8
    local function read(count)
        at = at + count
        return bits_at(text, at - count, count)
    end
    local accuracy = read(4) + 5
    if accuracy > most_accuracy then malformed("a table that is too large") end
    local left, symbol, counts = 2 ^ accuracy, 0, {}
    while left > 0 do
        if symbol > most_symbol or at > #text * 8 then malformed("a table of too many symbols") end
        local count = highest_bit(left + 1) + 1
        local value = read(count)
        local half = 2 ^ (count - 1)
        local threshold = 2 ^ count - 1 - (left + 1)
        if value % half < threshold then
            at = at - 1
            value = value % half
        elseif value >= half then
            value = value - threshold
        end
        local probability = value - 1
        left = left - math.abs(probability)
        counts[symbol] = probability
        symbol = symbol + 1
        while probability == 0 do
            local zeros = read(2)
            for _ = 1, zeros do counts[symbol], symbol = 0, symbol + 1 end
            if zeros < 3 then break end
            if symbol > most_symbol + 3 then malformed("a table of too many symbols") end
        end
    end
    if left < 0 then malformed("a table with too large counts") end
    return fse_table(counts, accuracy), from + math.ceil((at - (from - 1) * 8) / 8)
end

-- --- Literals (section 3.1.1.3.1)

local function read_weights(text, from)
    local head = byte(text, from) or malformed("no tree")
    local weights = {}
    if head >= 128 then
        local count = head - 127
        for i = 0, count - 1 do
            local pair = byte(text, from + 1 + floor(i / 2)) or malformed("a tree that ends early")
            weights[i] = i % 2 == 0 and floor(pair / 16) or pair % 16
        end
        return weights, count, from + 1 + floor((count + 1) / 2)
    end
    local behind = from + 1 + head
    local cells, at = read_fse(text:sub(1, behind - 1), from + 1, 6, 255)
    local stream = backward(text:sub(at, behind - 1))
    local states = {stream.read(cells.accuracy), stream.read(cells.accuracy)}
    local count, turn = 0, 1
    while count < 255 do
        local cell = cells[states[turn]]
        weights[count], count = cell.symbol, count + 1
        if stream.at - cell.bits < 0 then
            weights[count], count = cells[states[3 - turn]].symbol, count + 1
            break
        end
        states[turn] = cell.base + stream.read(cell.bits)
        turn = 3 - turn
    end
    return weights, count, behind
end

local function read_tree(text, from)
    local weights, count, behind = read_weights(text, from)
    local sum = 0
    for i = 0, count - 1 do sum = sum + (weights[i] > 0 and 2 ^ (weights[i] - 1) or 0) end
    if sum == 0 then malformed("a tree without symbols") end
    local most_bits = highest_bit(sum) + 1
    local left = 2 ^ most_bits - sum
    if most_bits > 11 or 2 ^ highest_bit(left) ~= left then malformed("a tree that does not close") end
    weights[count] = highest_bit(left) + 1
    local tree, at = {bits = most_bits}, 0
    for weight = 1, most_bits do
        for symbol = 0, count do
            if weights[symbol] == weight then
                for _ = 1, 2 ^ (weight - 1) do
                    tree[at], at = {symbol = symbol, bits = most_bits + 1 - weight}, at + 1
                end
            end
        end
    end
    return tree, behind
end

local function read_stream(tree, text, count, out)
    local stream = backward(text)
    for _ = 1, count do
        local leaf = tree[bits_at(text, stream.at - tree.bits, tree.bits)]
        stream.at = stream.at - leaf.bits
        if stream.at < 0 then malformed("a stream that ends early") end
        out[#out + 1] = leaf.symbol
    end
end

local function read_literals(text)
    local first = byte(text, 1) or malformed("no literals")
    local kind, form = first % 4, floor(first / 4) % 4
    local literals = {}
    if kind < 2 then
        local head = form == 1 and 2 or form == 3 and 3 or 1
        local size = head == 1 and floor(first / 8) or bits_at(text, 4, head * 8 - 4)
        local given = kind == 0 and size or 1
        if size > most_literals or head + given > #text then malformed("literals that end early") end
        for i = 1, size do literals[i] = byte(text, head + (kind == 0 and i or 1)) end
        return literals, head + given + 1
    end
    if kind == 3 then malformed("literals without a tree of their own") end
    local width = ({10, 10, 14, 18})[form + 1]
    local head = ({3, 3, 4, 5})[form + 1]
    local size, given = bits_at(text, 4, width), bits_at(text, 4 + width, width)
    if size > most_literals or head + given > #text then malformed("literals that end early") end
    local behind = head + given + 1
    local tree, at = read_tree(text:sub(1, behind - 1), head + 1)
    if form == 0 then
        read_stream(tree, text:sub(at, behind - 1), size, literals)
        return literals, behind
    end
    local each, from = floor((size + 3) / 4), at + 6
    for i = 1, 4 do
        local bytes = i < 4 and bits_at(text, (at - 1) * 8 + 16 * (i - 1), 16) or behind - from
        read_stream(tree, text:sub(from, math.min(from + bytes, behind) - 1), i < 4 and each or size - 3 * each, literals)
        from = from + bytes
    end
    return literals, behind
end

-- --- Sequences (section 3.1.1.3.2)

local function counts_of(list)
    local counts = {}
    for i, count in ipairs(list) do counts[i - 1] = count end
    return counts
end
local length_codes = {base = {}, bits = {}}
local match_codes = {base = {}, bits = {}}
local function add_codes(codes, first_base, plain, extra)
    local at = first_base
    for code = 0, plain + #extra - 1 do
        codes.base[code], codes.bits[code] = at, code < plain and 0 or extra[code - plain + 1]
        at = at + 2 ^ codes.bits[code]
    end
end
add_codes(length_codes, 0, 16, {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
add_codes(match_codes, 3, 32, {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})

local kinds = {
    {name = "literal lengths", most = 35, accuracy = 9, given = {6, {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3,
        2, 1, 1, 1, 1, 1, -1, -1, -1, -1}}},
    {name = "offsets", most = 31, accuracy = 8, given = {5, {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}}},
    {name = "match lengths", most = 52, accuracy = 9, given = {6, {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}}},
}

local function read_table(text, at, kind, mode)
    if mode == 0 then
        return fse_table(counts_of(kind.given[2]), kind.given[1]), at
    elseif mode == 1 then
        local symbol = byte(text, at) or malformed("no table")
        if symbol > kind.most then malformed("a code that is none") end
        return {[0] = {symbol = symbol, bits = 0, base = 0}, accuracy = 0}, at + 1
    elseif mode == 2 then
        return read_fse(text, at, kind.accuracy, kind.most)
    end
    malformed("a table of a block before")
end

-- The offset that a code's value means, with the three latest ones.
local function offset_of(value, latest, has_literals)
    if value > 3 then
        latest[1], latest[2], latest[3] = value - 3, latest[1], latest[2]
        return value - 3
    end
    local place = has_literals and value or value + 1
    local offset = place == 4 and latest[1] - 1 or latest[place]
    if place > 2 then latest[3] = latest[2] end
    if place > 1 then latest[2] = latest[1] end
    latest[1] = offset
    return offset
end

local function read_sequences(text, at)
    local count = byte(text, at) or malformed("no sequences")
    at = at + 1
    if count == 255 then
        count, at = bits_at(text, (at - 1) * 8, 16) + 0x7f00, at + 2
    elseif count >= 128 then
        count, at = (count - 128) * 256 + (byte(text, at) or 0), at + 1
    end
    if count == 0 then return 0 end
    local mode = byte(text, at) or malformed("no tables")
    local tables = {}
    at = at + 1
    for i, kind in ipairs(kinds) do
        tables[i], at = read_table(text, at, kind, floor(mode / 4 ^ (4 - i)) % 4)
    end
    return count, tables, backward(text:sub(at))
end

local function to_text(octets)
    local parts = {}
    for from = 1, #octets, 4096 do
        parts[#parts + 1] = char((unpack or table.unpack)(octets, from, math.min(from + 4095, #octets)))
    end
    return table.concat(parts)
end

-- The plaintext of the content, of at most `limit` bytes.
return function(text, limit)
    local literals, at = read_literals(text)
    local count, tables, stream = read_sequences(text, at)
    local out, used, latest = {}, 0, {1, 4, 8}
    local states = {}
    for i = 1, count > 0 and 3 or 0 do states[i] = stream.read(tables[i].accuracy) end
    for sequence = 1, count do
        local cells = {}
        for i = 1, 3 do cells[i] = tables[i][states[i]] end
        local code = cells[2].symbol
        local value = 2 ^ code + stream.read(code)
        local match = match_codes.base[cells[3].symbol] + stream.read(match_codes.bits[cells[3].symbol])
        local length = length_codes.base[cells[1].symbol] + stream.read(length_codes.bits[cells[1].symbol])
        if sequence < count then
            for _, i in ipairs({1, 3, 2}) do states[i] = cells[i].base + stream.read(cells[i].bits) end
        end
        local offset = offset_of(value, latest, length > 0)
        if stream.at < 0 or used + length > #literals or #out + length + match > limit then malformed("sequences that do not fit") end
        for i = used + 1, used + length do out[#out + 1] = literals[i] end
        used = used + length
        if offset < 1 or offset > #out then malformed("an offset before the beginning") end
        for _ = 1, match do out[#out + 1] = out[#out + 1 - offset] end
    end
    if #out + #literals - used > limit then malformed("more than the limit") end
    for i = used + 1, #literals do out[#out + 1] = literals[i] end
    return to_text(out)
end
