-- Published vectors for packaging/wireshark/continuo_crypto.lua and continuo_zstd.lua; prints "vectors: good" or what is
-- wrong. For `tshark -X lua_script:... -v`.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/../../packaging/wireshark/"
local crypto = dofile(folder .. "continuo_crypto.lua")
local expand = dofile(folder .. "continuo_zstd.lua")

local faults = 0
local function check(name, have, want)
    if have ~= want then
        faults = faults + 1
        print("wrong: " .. name)
    end
end
local function binary(hex) return (hex:gsub("%s+", ""):gsub("%x%x", function(octet) return string.char(tonumber(octet, 16)) end)) end
local function key_of(kind, key, nonce, tag_bytes)
    return crypto.parse_key_line(("continuo_key 0001 0 up %s/%d %s %s"):format(kind, tag_bytes or 16, key, nonce))
end
-- The nonce is the IV with space and sequence number 0.
local function check_open(name, key, header, sealed, plain)
    check(name, crypto.open(key, 0, 0, binary(header), binary(sealed)), plain)
    check(name .. ", another header", crypto.open(key, 0, 0, binary(header) .. "x", binary(sealed)), nil)
    check(name .. ", another number", crypto.open(key, 0, 1, binary(header), binary(sealed)), nil)
    check(name .. ", another space", crypto.open(key, 1, 0, binary(header), binary(sealed)), nil)
    check(name .. ", a flipped bit", crypto.open(key, 0, 0, binary(header), binary("01") .. binary(sealed):sub(2)), nil)
end

-- RFC 8439 section 2.8.2
check_open("ChaCha20-Poly1305",
    key_of("chacha20-poly1305", "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647"),
    "50515253c0c1c2c3c4c5c6c7",
    [[d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
      92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691]],
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.")
-- McGrew and Viega, The Galois/Counter Mode of Operation, test case 16
check_open("AES-256-GCM",
    key_of("aes-256-gcm", "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888"),
    "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    [[522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
      76fc6ece0f4e1768cddf8853bb2d551b]],
    binary([[d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39]]))
-- FIPS 180-4, the examples of NIST
local function hex(text) return (text:gsub(".", function(octet) return ("%02x"):format(octet:byte()) end)) end
check("SHA-256, one block", hex(crypto.sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
check("SHA-256, two blocks", hex(crypto.sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
-- Output of zstd 1.5.4: a run; a request twice, with Huffman-coded literals.
check("zstd, a run", expand(binary("1000000100272ac002"), 300), ("\0"):rep(300))
local request = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n\r\n"
local compressed = binary([[62c6161a70c70eadef26511613978c4283a280ce8fdcc377c82ffd0f3810a9a94f39f8b2bf4270ed91efe576d6f8b30071d2598eaf5b3b5215320c54a405366d
    397efb41c06606a90e1deae51598a19723e39254855412ac956cda8500020300a81e528853ff01c43c03]])
check("zstd, text", expand(compressed, 238), request:rep(2))
check("zstd, beyond the limit", pcall(expand, compressed, 237), false)
-- Whatever is wrong is told as such, not as a fault of the decoder.
for at = 1, #compressed do
    for bit = 0, 7 do
        local octet = compressed:byte(at)
        local flipped = octet % 2 ^ (bit + 1) >= 2 ^ bit and octet - 2 ^ bit or octet + 2 ^ bit
        local good, fault = pcall(expand, compressed:sub(1, at - 1) .. string.char(flipped) .. compressed:sub(at + 1), 65536)
        check("zstd, byte " .. at .. " flipped: " .. tostring(fault), good or type(fault) == "table", true)
    end
    local good, fault = pcall(expand, compressed:sub(1, at - 1), 65536)
    check("zstd, cut before " .. at .. ": " .. tostring(fault), good or type(fault) == "table", true)
end
for name, line in pairs({["no key"] = "continuo_key 0001 0 up aes-256-gcm/16 00 00", ["no direction"] = "continuo_key 0001 0 in aes-256-gcm/16 " ..
    ("0"):rep(64) .. " " .. ("0"):rep(24), ["no kind"] = "continuo_key 0001 0 up none/16 " .. ("0"):rep(64) .. " " .. ("0"):rep(24)}) do
    check("line with " .. name, crypto.parse_key_line(line), nil)
end
print(faults == 0 and "vectors: good" or "vectors: " .. faults .. " wrong")
