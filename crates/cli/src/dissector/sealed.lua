
-- Sealed packets, opened with a key log. AES-256-GCM and SHA-256 are written in Lua, because that of Wireshark 4.0 has neither.

local bits = bit32 or load("return { bxor = function(a, b, c, d, e) return a ~ b ~ (c or 0) ~ (d or 0) ~ (e or 0) end, \z
    band = function(a, b) return a & b end, bnot = function(a) return ~a & 0xffffffff end, \z
    rshift = function(a, n) return a >> n end, lshift = function(a, n) return (a << n) & 0xffffffff end, \z
    rrotate = function(a, n) return (a >> n | a << (32 - n)) & 0xffffffff end }")()

-- The data of a sealed packet: of its header, data, number and tag; `nil` if no secret of the key log opens it.
local open_sealed
-- The same for a record of a stream, which is the next one of its side: of its beginning, data and tag.
local open_record
do
    local bxor, band, bnot = bits.bxor, bits.band, bits.bnot
    local rshift, lshift, rrotate = bits.rshift, bits.lshift, bits.rrotate
    local WORD = 0x100000000

    local function words_of(bytes, at)
        local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = bytes:byte(at, at + 15)
        return ((a * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h,
            ((i * 256 + j) * 256 + k) * 256 + l, ((m * 256 + n) * 256 + o) * 256 + p
    end

    local function bytes_of(word)
        return string.char(rshift(word, 24), band(rshift(word, 16), 255), band(rshift(word, 8), 255), band(word, 255))
    end

    -- SHA-256 (FIPS 180-4)

    -- The first 32 bits of a root's fraction.
    local function fraction(root)
        return math.floor((root - math.floor(root)) * WORD)
    end

    local sha_start, sha_round = {}, {}
    do
        local candidate = 2
        while #sha_round < 64 do
            local is_prime = true
            for factor = 2, math.floor(math.sqrt(candidate)) do
                if candidate % factor == 0 then is_prime = false end
            end
            if is_prime then
                if #sha_start < 8 then sha_start[#sha_start + 1] = fraction(math.sqrt(candidate)) end
                sha_round[#sha_round + 1] = fraction(candidate ^ (1 / 3))
            end
            candidate = candidate + 1
        end
    end

    local function sha256(message)
        local padded = message .. "\128" .. ("\0"):rep((55 - #message) % 64) .. ("\0"):rep(4) .. bytes_of(#message * 8)
        local state = { table.unpack(sha_start) }
        for block = 1, #padded, 64 do
            local w = {}
            for i = 0, 3 do w[4 * i + 1], w[4 * i + 2], w[4 * i + 3], w[4 * i + 4] = words_of(padded, block + 16 * i) end
            for i = 17, 64 do
                local x, y = w[i - 15], w[i - 2]
                local s0 = bxor(rrotate(x, 7), rrotate(x, 18), rshift(x, 3))
                local s1 = bxor(rrotate(y, 17), rrotate(y, 19), rshift(y, 10))
                w[i] = (w[i - 16] + s0 + w[i - 7] + s1) % WORD
            end
            local a, b, c, d, e, f, g, h = table.unpack(state)
            for i = 1, 64 do
                local s1 = bxor(rrotate(e, 6), rrotate(e, 11), rrotate(e, 25))
                local t1 = h + s1 + bxor(band(e, f), band(bnot(e), g)) + sha_round[i] + w[i]
                local s0 = bxor(rrotate(a, 2), rrotate(a, 13), rrotate(a, 22))
                local t2 = s0 + bxor(band(a, b), band(a, c), band(b, c))
                a, b, c, d, e, f, g, h = (t1 + t2) % WORD, a, b, c, (d + t1) % WORD, e, f, g
            end
            for i, word in ipairs({ a, b, c, d, e, f, g, h }) do state[i] = (state[i] + word) % WORD end
        end
        local digest = {}
        for i, word in ipairs(state) do digest[i] = bytes_of(word) end
        return table.concat(digest)
    end

    -- HKDF-Expand (RFC 5869) of at most 32 bytes, with HMAC (RFC 2104).
    local function expand(secret, info, len)
        local key = secret .. ("\0"):rep(64 - #secret)
        local inner = key:gsub(".", function(byte) return string.char(bxor(byte:byte(), 0x36)) end)
        local outer = key:gsub(".", function(byte) return string.char(bxor(byte:byte(), 0x5c)) end)
        return sha256(outer .. sha256(inner .. info .. "\1")):sub(1, len)
    end

    -- AES-256 (FIPS 197)

    local sbox, te0, te1, te2, te3 = { [0] = 0x63 }, {}, {}, {}, {}
    do
        local p, q = 1, 1
        repeat
            p = band(bxor(p, p * 2, p >= 128 and 0x1b or 0), 255)
            q = band(bxor(q, q * 2), 255)
            q = band(bxor(q, q * 4), 255)
            q = band(bxor(q, q * 16), 255)
            if q >= 128 then q = bxor(q, 9) end
            local r = q * 257
            sbox[p] = bxor(band(bxor(bxor(r, rshift(r, 7), rshift(r, 6)), rshift(r, 5), rshift(r, 4)), 255), 0x63)
        until p == 1
        for byte = 0, 255 do
            local s = sbox[byte]
            local s2 = band(bxor(s * 2, s >= 128 and 0x11b or 0), 255)
            local word = s2 * 0x1000000 + s * 0x10100 + bxor(s2, s)
            te0[byte], te1[byte], te2[byte], te3[byte] = word, rrotate(word, 8), rrotate(word, 16), rrotate(word, 24)
        end
    end

    local function substituted(word)
        return ((sbox[rshift(word, 24)] * 256 + sbox[band(rshift(word, 16), 255)]) * 256 + sbox[band(rshift(word, 8), 255)]) * 256
            + sbox[band(word, 255)]
    end

    local function round_keys(key)
        local w, constant = {}, 1
        w[0], w[1], w[2], w[3] = words_of(key, 1)
        w[4], w[5], w[6], w[7] = words_of(key, 17)
        for i = 8, 59 do
            local word = w[i - 1]
            if i % 8 == 0 then
                word = bxor(substituted(rrotate(word, 24)), constant * 0x1000000)
                constant = constant * 2
            elseif i % 8 == 4 then
                word = substituted(word)
            end
            w[i] = bxor(w[i - 8], word)
        end
        return w
    end

    local function encrypted(w, a, b, c, d)
        a, b, c, d = bxor(a, w[0]), bxor(b, w[1]), bxor(c, w[2]), bxor(d, w[3])
        for i = 4, 52, 4 do
            a, b, c, d =
                bxor(te0[rshift(a, 24)], te1[band(rshift(b, 16), 255)], te2[band(rshift(c, 8), 255)], te3[band(d, 255)], w[i]),
                bxor(te0[rshift(b, 24)], te1[band(rshift(c, 16), 255)], te2[band(rshift(d, 8), 255)], te3[band(a, 255)], w[i + 1]),
                bxor(te0[rshift(c, 24)], te1[band(rshift(d, 16), 255)], te2[band(rshift(a, 8), 255)], te3[band(b, 255)], w[i + 2]),
                bxor(te0[rshift(d, 24)], te1[band(rshift(a, 16), 255)], te2[band(rshift(b, 8), 255)], te3[band(c, 255)], w[i + 3])
        end
        local function last(p, q, r, s, key)
            local word = ((sbox[rshift(p, 24)] * 256 + sbox[band(rshift(q, 16), 255)]) * 256 + sbox[band(rshift(r, 8), 255)]) * 256
            return bxor(word + sbox[band(s, 255)], key)
        end
        return last(a, b, c, d, w[56]), last(b, c, d, a, w[57]), last(c, d, a, b, w[58]), last(d, a, b, c, w[59])
    end

    -- GCM (NIST SP 800-38D)

    -- The multiples of the hash key by four bits.
    local function multiples(a, b, c, d)
        local table_of = { [0] = { 0, 0, 0, 0 } }
        local step = 8
        while step > 0 do
            table_of[step] = { a, b, c, d }
            local low = d % 2
            d = rshift(d, 1) + c % 2 * 0x80000000
            c = rshift(c, 1) + b % 2 * 0x80000000
            b = rshift(b, 1) + a % 2 * 0x80000000
            a = bxor(rshift(a, 1), low * 0xe1000000)
            step = math.floor(step / 2)
        end
        for _, high in ipairs({ 2, 4, 8 }) do
            for low = 1, high - 1 do
                local x, y = table_of[high], table_of[low]
                table_of[high + low] = { bxor(x[1], y[1]), bxor(x[2], y[2]), bxor(x[3], y[3]), bxor(x[4], y[4]) }
            end
        end
        return table_of
    end

    -- What four bits that fall out below come back as.
    local back = { [0] = 0, 0x1c20, 0x3840, 0x2460, 0x7080, 0x6ca0, 0x48c0, 0x54e0, 0xe100, 0xfd20, 0xd940, 0xc560, 0x9180, 0x8da0,
        0xa9c0, 0xb5e0 }

    local function hash(table_of, message)
        local a, b, c, d = 0, 0, 0, 0
        for at = 1, #message, 16 do
            local e, f, g, h = words_of(message, at)
            e, f, g, h = bxor(a, e), bxor(b, f), bxor(c, g), bxor(d, h)
            a, b, c, d = 0, 0, 0, 0
            for _, word in ipairs({ h, g, f, e }) do
                for _ = 1, 8 do
                    local fell = d % 16
                    d = rshift(d, 4) + c % 16 * 0x10000000
                    c = rshift(c, 4) + b % 16 * 0x10000000
                    b = rshift(b, 4) + a % 16 * 0x10000000
                    a = bxor(rshift(a, 4), back[fell] * 0x10000)
                    local row = table_of[word % 16]
                    a, b, c, d = bxor(a, row[1]), bxor(b, row[2]), bxor(c, row[3]), bxor(d, row[4])
                    word = rshift(word, 4)
                end
            end
        end
        return a, b, c, d
    end

    local function filled(bytes)
        return bytes .. ("\0"):rep(-#bytes % 16)
    end

    -- The keys of a phase.
    local function keys_of(secret)
        local w = round_keys(expand(secret, "stoop key", 32))
        return { w = w, hash = multiples(encrypted(w, 0, 0, 0, 0)), mask = expand(secret, "stoop iv", 12) }
    end

    -- The words of the nonce of a number.
    local function nonce_of(keys, number)
        local mask = { keys.mask:byte(1, 12) }
        for i = 1, 8 do mask[4 + i] = bxor(mask[4 + i], number:byte(9 - i)) end
        return words_of(string.char(table.unpack(mask)) .. "\0\0\0\0", 1)
    end

    -- The 16 bytes at `at` decrypted, whatever they are.
    local function block_at(keys, n1, n2, n3, data, at)
        local e, f, g, h = encrypted(keys.w, n1, n2, n3, 2 + (at - 1) / 16)
        local a, b, c, d = words_of(data, at)
        return bytes_of(bxor(a, e)) .. bytes_of(bxor(b, f)) .. bytes_of(bxor(c, g)) .. bytes_of(bxor(d, h))
    end

    local function opened(keys, header, data, number, tag)
        local n1, n2, n3 = nonce_of(keys, number)
        local lengths = ("\0"):rep(4) .. bytes_of(#header * 8) .. ("\0"):rep(4) .. bytes_of(#data * 8)
        local a, b, c, d = hash(keys.hash, filled(header) .. filled(data) .. lengths)
        local e, f, g, h = encrypted(keys.w, n1, n2, n3, 1)
        if bytes_of(bxor(a, e)) .. bytes_of(bxor(b, f)) .. bytes_of(bxor(c, g)) .. bytes_of(bxor(d, h)) ~= tag then return nil end
        local plain, whole = {}, filled(data)
        for at = 1, #data, 16 do
            plain[#plain + 1] = block_at(keys, n1, n2, n3, whole, at)
        end
        return table.concat(plain):sub(1, #data)
    end

    -- The key log

    local secrets -- by binding: for each direction { of_phase: phase → secret, keys: phase → keys, phase: that of the last packet }
    local logged  -- the same in the order of the log, with the binding: a record does not tell it
    local log_len

    function reset_secrets()
        secrets, logged, log_len = {}, {}, 0
    end

    local function from_hex(text)
        return (text:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end))
    end

    -- Reads the log from where it ended before: a capture that goes on has new bindings.
    local function read_secrets()
        local file = stoop.prefs.keys ~= "" and io.open(stoop.prefs.keys, "r")
        if not file then return end
        if file:seek("end") < log_len then log_len = 0 end
        file:seek("set", log_len)
        for line in file:lines() do
            local number, of_caller, of_server = line:match("^STOOP_SECRETS (%x+) (%x+) (%x+)%s*$")
            if number and #number == 16 and #of_caller == 64 and #of_server == 64 then
                local ends = { binding = from_hex(number):reverse() }
                for i, secret in ipairs({ of_caller, of_server }) do
                    ends[i] = { of_phase = { [0] = from_hex(secret) }, keys = {}, phase = 0 }
                end
                secrets[ends.binding], logged[#logged + 1] = ends, ends
            end
        end
        log_len = file:seek("end")
        file:close()
    end

    function has_secrets(binding)
        if not secrets[binding] then read_secrets() end
        return secrets[binding] ~= nil
    end

    local function keys_in(direction, phase)
        while not direction.of_phase[phase] do
            local known = #direction.of_phase
            direction.of_phase[known + 1] = expand(direction.of_phase[known], "stoop ku", 32)
        end
        direction.keys[phase] = direction.keys[phase] or keys_of(direction.of_phase[phase])
        return direction.keys[phase]
    end

    -- Phases further ahead than the last packet's that are tried.
    local AHEAD = 3

    function open_sealed(h, header, data, number, tag)
        local is_odd = has_bit(h.flags, 2)
        for _, direction in ipairs(secrets[h.binding] or {}) do
            for phase = math.max(0, direction.phase - 1), direction.phase + AHEAD do
                if (phase % 2 == 1) == is_odd then
                    local plain = opened(keys_in(direction, phase), header, data, number, tag)
                    if plain then
                        direction.phase = phase
                        return plain
                    end
                end
            end
        end
        return nil
    end

    local function number_of(count)
        local bytes = {}
        for i = 1, 8 do
            bytes[i] = string.char(count % 256)
            count = math.floor(count / 256)
        end
        return table.concat(bytes)
    end

    -- The secrets that open the first record of a direction, 1 of the caller, 2 of the server. The stream begins with a header, which
    -- has the binding: so the first block tells which secrets are worth a try.
    local function secrets_for(direction, header, data, tag)
        read_secrets()
        local first, whole = number_of(0), filled(data:sub(1, 16))
        for _, ends in ipairs(logged) do
            local keys = keys_in(ends[direction], 0)
            local n1, n2, n3 = nonce_of(keys, first)
            local plain = block_at(keys, n1, n2, n3, whole, 1):sub(1, #data)
            local is_likely = plain:sub(1, 2) == ("\215\1"):sub(1, #plain) and plain:sub(9) == ends.binding:sub(1, math.max(0, #plain - 8))
            if is_likely and opened(keys, header, data, first, tag) then return ends end
        end
        return nil
    end

    function open_record(stream, side, header, data, tag)
        if side.is_lost then return nil end
        if side.count == 0 and not stream.secrets then stream.secrets = secrets_for(side.direction, header, data, tag) end
        if stream.secrets then
            local phase = (side.phase % 2 == 1) == (header:byte(4) >= 128) and side.phase or side.phase + 1
            local plain = opened(keys_in(stream.secrets[side.direction], phase), header, data, number_of(side.count), tag)
            if plain then
                side.phase = phase
                return plain
            end
        end
        -- The numbers of those that follow are not known any more, or the stream has ended.
        side.is_lost = true
        return nil
    end
end
