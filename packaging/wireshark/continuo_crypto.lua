-- Opens datagrams of Continuo (docs/PROTOCOL.md section 2.4) for continuo.lua: AES-256-GCM, ChaCha20-Poly1305 and
-- HMAC-SHA256, in plain Lua, since Wireshark 4.0 offers scripts no cipher. For looking into captures, not for secrets:
-- it takes its time, and not the same time for every key. Bytes are Lua strings, words are 32 bits in any sign.
local bits = bit32 or bit
local band, bor, bxor, bnot = bits.band, bits.bor, bits.bxor, bits.bnot
local lshift, rshift = bits.lshift, bits.rshift
local rol = bits.lrotate or bits.rol
local ror = bits.rrotate or bits.ror
local byte, char, rep = string.byte, string.char, string.rep

local function words_be(text, first, count)
    local words = {}
    for i = 1, count do
        local a, b, c, d = byte(text, first + 4 * i - 4, first + 4 * i - 1)
        words[i] = bor(lshift(a, 24), lshift(b, 16), lshift(c, 8), d)
    end
    return words
end

local function words_le(text, first, count)
    local words = {}
    for i = 1, count do
        local a, b, c, d = byte(text, first + 4 * i - 4, first + 4 * i - 1)
        words[i] = bor(a, lshift(b, 8), lshift(c, 16), lshift(d, 24))
    end
    return words
end

local function be32(word)
    return char(band(rshift(word, 24), 255), band(rshift(word, 16), 255), band(rshift(word, 8), 255), band(word, 255))
end

local function le32(word)
    return char(band(word, 255), band(rshift(word, 8), 255), band(rshift(word, 16), 255), band(rshift(word, 24), 255))
end

local function xor(left, right)
    local out = {}
    for i = 1, #left do
        out[i] = char(bxor(byte(left, i), byte(right, i)))
    end
    return table.concat(out)
end

local function pad16(text)
    return rep("\0", -#text % 16)
end

-- --- AES-256 (FIPS 197), forward only

local sbox, t0, t1, t2, t3 = {}, {}, {}, {}, {}

local function make_tables()
    local power, log = {}, {}
    local x = 1
    for i = 0, 254 do
        power[i], log[x] = x, i
        local doubled = x * 2
        if doubled > 255 then doubled = bxor(doubled, 0x11b) end
        x = bxor(doubled, x)
    end
    power[255] = power[0]
    for i = 0, 255 do
        local inverse = i == 0 and 0 or power[255 - log[i]]
        local s = inverse
        for shift = 1, 4 do
            s = bxor(s, band(bor(lshift(inverse, shift), rshift(inverse, 8 - shift)), 255))
        end
        s = bxor(s, 0x63)
        sbox[i] = s
        local two = s * 2
        if two > 255 then two = bxor(two, 0x11b) end
        local word = bor(lshift(two, 24), lshift(s, 16), lshift(s, 8), bxor(two, s))
        t0[i], t1[i], t2[i], t3[i] = word, ror(word, 8), ror(word, 16), ror(word, 24)
    end
end

local function sub_word(word)
    return bor(lshift(sbox[band(rshift(word, 24), 255)], 24), lshift(sbox[band(rshift(word, 16), 255)], 16),
        lshift(sbox[band(rshift(word, 8), 255)], 8), sbox[band(word, 255)])
end

local function aes_expand(key)
    if not sbox[0] then make_tables() end
    local w = words_be(key, 1, 8)
    local round_constant = 1
    for i = 9, 60 do
        local word = w[i - 1]
        if i % 8 == 1 then
            word = bxor(sub_word(rol(word, 8)), lshift(round_constant, 24))
            round_constant = round_constant * 2
        elseif i % 8 == 5 then
            word = sub_word(word)
        end
        w[i] = bxor(w[i - 8], word)
    end
    return w
end

local function aes_block(w, a, b, c, d)
    a, b, c, d = bxor(a, w[1]), bxor(b, w[2]), bxor(c, w[3]), bxor(d, w[4])
    for round = 5, 53, 4 do
        local e = bxor(t0[band(rshift(a, 24), 255)], t1[band(rshift(b, 16), 255)], t2[band(rshift(c, 8), 255)], t3[band(d, 255)], w[round])
        local f = bxor(t0[band(rshift(b, 24), 255)], t1[band(rshift(c, 16), 255)], t2[band(rshift(d, 8), 255)], t3[band(a, 255)], w[round + 1])
        local g = bxor(t0[band(rshift(c, 24), 255)], t1[band(rshift(d, 16), 255)], t2[band(rshift(a, 8), 255)], t3[band(b, 255)], w[round + 2])
        local h = bxor(t0[band(rshift(d, 24), 255)], t1[band(rshift(a, 16), 255)], t2[band(rshift(b, 8), 255)], t3[band(c, 255)], w[round + 3])
        a, b, c, d = e, f, g, h
    end
    local function last(p, q, r, s, key)
        return bxor(bor(lshift(sbox[band(rshift(p, 24), 255)], 24), lshift(sbox[band(rshift(q, 16), 255)], 16),
            lshift(sbox[band(rshift(r, 8), 255)], 8), sbox[band(s, 255)]), key)
    end
    return last(a, b, c, d, w[57]), last(b, c, d, a, w[58]), last(c, d, a, b, w[59]), last(d, a, b, c, w[60])
end

-- --- GCM (NIST SP 800-38D), with a table for 4 bits at a time

local reduce = {[0] = 0x0000, 0x1c20, 0x3840, 0x2460, 0x7080, 0x6ca0, 0x48c0, 0x54e0,
    0xe100, 0xfd20, 0xd940, 0xc560, 0x9180, 0x8da0, 0xa9c0, 0xb5e0}

local function ghash_table(a, b, c, d)
    local entries = {[0] = {0, 0, 0, 0}, [8] = {a, b, c, d}}
    for _, i in ipairs({4, 2, 1}) do
        local carry = band(d, 1) * 0xe1000000
        d = bor(rshift(d, 1), lshift(c, 31))
        c = bor(rshift(c, 1), lshift(b, 31))
        b = bor(rshift(b, 1), lshift(a, 31))
        a = bxor(rshift(a, 1), carry)
        entries[i] = {a, b, c, d}
    end
    for _, i in ipairs({2, 4, 8}) do
        for j = 1, i - 1 do
            local x, y = entries[i], entries[j]
            entries[i + j] = {bxor(x[1], y[1]), bxor(x[2], y[2]), bxor(x[3], y[3]), bxor(x[4], y[4])}
        end
    end
    return entries
end

local function ghash(entries, text)
    local a, b, c, d = 0, 0, 0, 0
    for block = 1, #text, 16 do
        local w = words_be(text, block, 4)
        local x = {bxor(a, w[1]), bxor(b, w[2]), bxor(c, w[3]), bxor(d, w[4])}
        a, b, c, d = 0, 0, 0, 0
        for i = 4, 1, -1 do
            local word = x[i]
            for shift = 0, 28, 4 do
                local rest = reduce[band(d, 15)]
                d = bor(rshift(d, 4), lshift(c, 28))
                c = bor(rshift(c, 4), lshift(b, 28))
                b = bor(rshift(b, 4), lshift(a, 28))
                local entry = entries[band(rshift(word, shift), 15)]
                a = bxor(rshift(a, 4), lshift(rest, 16), entry[1])
                b, c, d = bxor(b, entry[2]), bxor(c, entry[3]), bxor(d, entry[4])
            end
        end
    end
    return a, b, c, d
end

local function gcm_open(key, nonce, header, sealed, tag)
    local w = key.words
    local n = words_be(nonce, 1, 3)
    local input = header .. pad16(header) .. sealed .. pad16(sealed) .. be32(0) .. be32(#header * 8) .. be32(0) .. be32(#sealed * 8)
    local a, b, c, d = ghash(key.table, input)
    local e, f, g, h = aes_block(w, n[1], n[2], n[3], 1)
    if be32(bxor(a, e)) .. be32(bxor(b, f)) .. be32(bxor(c, g)) .. be32(bxor(d, h)) ~= tag then
        return nil
    end
    local stream = {}
    for i = 1, math.ceil(#sealed / 16) do
        a, b, c, d = aes_block(w, n[1], n[2], n[3], i + 1)
        stream[i] = be32(a) .. be32(b) .. be32(c) .. be32(d)
    end
    return xor(sealed, table.concat(stream))
end

local function gcm_key(key)
    local w = aes_expand(key)
    return {words = w, table = ghash_table(aes_block(w, 0, 0, 0, 0))}
end

-- --- ChaCha20-Poly1305 (RFC 8439)

local function chacha_block(key, counter, nonce)
    local start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[1], key[2], key[3], key[4], key[5], key[6], key[7], key[8],
        counter, nonce[1], nonce[2], nonce[3]}
    local s = {}
    for i = 1, 16 do s[i] = start[i] end
    local function quarter(a, b, c, d)
        s[a] = band(s[a] + s[b], 0xffffffff); s[d] = rol(bxor(s[d], s[a]), 16)
        s[c] = band(s[c] + s[d], 0xffffffff); s[b] = rol(bxor(s[b], s[c]), 12)
        s[a] = band(s[a] + s[b], 0xffffffff); s[d] = rol(bxor(s[d], s[a]), 8)
        s[c] = band(s[c] + s[d], 0xffffffff); s[b] = rol(bxor(s[b], s[c]), 7)
    end
    for _ = 1, 10 do
        quarter(1, 5, 9, 13); quarter(2, 6, 10, 14); quarter(3, 7, 11, 15); quarter(4, 8, 12, 16)
        quarter(1, 6, 11, 16); quarter(2, 7, 12, 13); quarter(3, 8, 9, 14); quarter(4, 5, 10, 15)
    end
    local out = {}
    for i = 1, 16 do out[i] = le32(band(s[i] + start[i], 0xffffffff)) end
    return table.concat(out)
end

-- Ten limbs of 13 bits, little-endian: products stay exact in a double.
local function limbs_of(text, last)
    local limbs, value, count = {}, 0, 0
    for i = 1, 17 do
        local octet = i <= #text and byte(text, i) or (i == #text + 1 and last or 0)
        value = value + octet * 2 ^ count
        count = count + 8
        if count >= 13 then
            limbs[#limbs + 1] = value % 8192
            value, count = (value - value % 8192) / 8192, count - 13
        end
    end
    limbs[10] = limbs[10] or value
    return limbs
end

local function carry(limbs)
    local over = 0
    for i = 1, 10 do
        local value = limbs[i] + over
        limbs[i] = value % 8192
        over = (value - limbs[i]) / 8192
    end
    return over
end

-- Modulo 2^130 - 5, but for what is left in the limbs.
local function fold(limbs)
    local over = carry(limbs)
    limbs[1] = limbs[1] + 5 * over
end

local clamp = {255, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15}

local function poly1305(key, text)
    local clamped = {}
    for i = 1, 16 do clamped[i] = char(band(byte(key, i), clamp[i])) end
    local r = limbs_of(table.concat(clamped), 0)
    local h = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    for block = 1, #text, 16 do
        local m = limbs_of(text:sub(block, block + 15), 1)
        for i = 1, 10 do h[i] = h[i] + m[i] end
        local product = {}
        for i = 1, 10 do
            local sum = 0
            for j = 1, 10 do
                sum = sum + h[j] * (j <= i and r[i - j + 1] or 5 * r[i - j + 11])
            end
            product[i] = sum
        end
        h = product
        fold(h)
        fold(h)
    end
    fold(h)
    local g = {h[1] + 5, h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10]}
    if carry(g) > 0 then h = g end
    local out, value, count, limb, over = {}, 0, 0, 1, 0
    for i = 1, 16 do
        while count < 8 do
            value, count, limb = value + h[limb] * 2 ^ count, count + 13, limb + 1
        end
        local sum = value % 256 + byte(key, 16 + i) + over
        out[i] = char(sum % 256)
        over = (sum - sum % 256) / 256
        value, count = (value - value % 256) / 256, count - 8
    end
    return table.concat(out)
end

local function chacha_open(key, nonce, header, sealed, tag)
    local n = words_le(nonce, 1, 3)
    local input = header .. pad16(header) .. sealed .. pad16(sealed) .. le32(#header) .. le32(0) .. le32(#sealed) .. le32(0)
    if poly1305(chacha_block(key, 0, n):sub(1, 32), input) ~= tag then
        return nil
    end
    local stream = {}
    for i = 1, math.ceil(#sealed / 64) do stream[i] = chacha_block(key, i, n) end
    return xor(sealed, table.concat(stream))
end

-- --- HMAC-SHA256 (RFC 2104, FIPS 180-4)

local primes = {}
local function round_constants()
    local function fraction(root) return math.floor(root % 1 * 4294967296) end
    local candidate = 2
    while #primes < 64 do
        local is_prime = true
        for divisor = 2, math.floor(math.sqrt(candidate)) do
            if candidate % divisor == 0 then is_prime = false end
        end
        if is_prime then
            -- Newton's last step takes the power's error of a few units away.
            local root = candidate ^ (1 / 3)
            root = root - (root * root * root - candidate) / (3 * root * root)
            primes[#primes + 1] = fraction(root)
        end
        candidate = candidate + 1
    end
end

local function sha256(text)
    if not primes[1] then round_constants() end
    local state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
    text = text .. "\128" .. rep("\0", (55 - #text) % 64) .. be32(0) .. be32(#text * 8)
    for block = 1, #text, 64 do
        local w = words_be(text, block, 16)
        for i = 17, 64 do
            local p, q = w[i - 15], w[i - 2]
            w[i] = band(w[i - 16] + bxor(ror(p, 7), ror(p, 18), rshift(p, 3)) + w[i - 7] + bxor(ror(q, 17), ror(q, 19), rshift(q, 10)), 0xffffffff)
        end
        local a, b, c, d, e, f, g, h = (unpack or table.unpack)(state)
        for i = 1, 64 do
            local one = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(band(e, f), band(bnot(e), g)) + primes[i] + w[i]
            local two = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(a, c), band(b, c))
            h, g, f, e, d, c, b, a = g, f, e, band(d + one, 0xffffffff), c, b, a, band(one + two, 0xffffffff)
        end
        for i, value in ipairs({a, b, c, d, e, f, g, h}) do state[i] = band(state[i] + value, 0xffffffff) end
    end
    local out = {}
    for i = 1, 8 do out[i] = be32(state[i]) end
    return table.concat(out)
end

local function hmac_key(key)
    key = key .. rep("\0", 64 - #key)
    return {inner = xor(key, rep("\x36", 64)), outer = xor(key, rep("\x5c", 64))}
end

local function hmac(prepared, text) return sha256(prepared.outer .. sha256(prepared.inner .. text)) end

-- --- Datagrams

local makers = {
    ["aes-256-gcm"] = gcm_key,
    ["chacha20-poly1305"] = function(key) return words_le(key, 1, 8) end,
    ["hmac-sha256"] = hmac_key,
}

local crypto = {}

-- A line of the keys file, or nil: continuo_key SESSION EPOCH up|down KIND/TAG_BYTES KEY IV
function crypto.parse_key_line(line)
    local session, epoch, direction, kind, tag_bytes, key, iv = line:match(
        "^continuo_key (%x%x%x%x) (%d+) (%l+) ([%l%d-]+)/(%d+) (%x+) (%x+)%s*$")
    if not session or not makers[kind] or #key ~= 64 or #iv ~= 24 or (direction ~= "up" and direction ~= "down") then
        return nil
    end
    local function binary(hex) return (hex:gsub("%x%x", function(octet) return char(tonumber(octet, 16)) end)) end
    return {session = tonumber(session, 16), epoch = tonumber(epoch), direction = direction, kind = kind,
        tag_bytes = tonumber(tag_bytes), key = binary(key), iv = binary(iv)}
end

function crypto.is_readable(key) return key.kind == "hmac-sha256" end

-- The body, or nil when the tag is not that of this key, space and sequence number.
function crypto.open(key, space, sequence, header, rest)
    if #rest < key.tag_bytes then return nil end
    key.prepared = key.prepared or makers[key.kind](key.key)
    local body, tag = rest:sub(1, #rest - key.tag_bytes), rest:sub(#rest - key.tag_bytes + 1)
    local prefix = char(0, 0, math.floor(space / 256), space % 256) .. be32(0) .. be32(sequence)
    if key.kind == "hmac-sha256" then
        return hmac(key.prepared, prefix .. header .. body):sub(1, key.tag_bytes) == tag and body or nil
    end
    local open = key.kind == "aes-256-gcm" and gcm_open or chacha_open
    return open(key.prepared, xor(prefix, key.iv), header, body, tag)
end

-- Whether it is the tag of a HELLO whose first octets are these (section 3.7).
function crypto.is_hello(key, signed, tag)
    return hmac(hmac_key(key.key), "continuo hello" .. signed):sub(1, #tag) == tag
end

crypto.sha256 = sha256
return crypto
