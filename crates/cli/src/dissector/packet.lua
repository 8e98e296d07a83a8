-- One packet: its header, and the payload of its kind.

local function has_bit(number, bit)
    return math.floor(number / 2 ^ bit) % 2 == 1
end

local function le(bytes, at, count)
    local number = 0
    for i = at + count - 1, at, -1 do number = number * 256 + bytes[i] end
    return number
end

local function seconds_of_left(word)
    if word < 2 ^ 31 then return word / 1e6 end
    if word == NO_DEADLINE then return nil end
    return (word - 2 ^ 31) / 1e3
end

local function span(seconds)
    local whole = math.floor(seconds)
    local nanos = math.floor((seconds - whole) * 1e9 + 0.5)
    if nanos == 1e9 then whole, nanos = whole + 1, 0 end
    return NSTime.new(whole, nanos)
end

-- A time for people.
local function told(seconds)
    if seconds < 1e-3 then return string.format("%.1f µs", seconds * 1e6) end
    if seconds < 1 then return string.format("%.3g ms", seconds * 1e3) end
    return string.format("%.4g s", seconds)
end

local NONCE_AT = { [KIND.BIND] = 1, [KIND.BIND_REPLY] = 2, [KIND.DESCRIBE] = 1, [KIND.DESCRIPTION] = 1 }

-- Whether the nonce in a plain payload has its low half in the header's number.
local function has_its_nonce(h, payload)
    local at = NONCE_AT[h.kind]
    return #payload >= at + 3 and le({ payload:byte(at, at + 3) }, 1, 4) == h.number
end

local has_secrets -- whether the key log has those of a binding

-- Whether a packet with bit 62 of the binding is sealed. Servers without sealing give out such bindings, too: then the bind was plain, and
-- what follows the data is nothing, padding or another packet.
local function is_sealed_at(tvb, at, h)
    local is_known = has_secrets(h.binding)
    if bindings[h.binding] and not is_known then return false end
    local there = tvb:len() - at - HEADER_LEN
    if NONCE_AT[h.kind] and not is_known and has_its_nonce(h, tvb:raw(at + HEADER_LEN, math.max(0, math.min(there, 16)))) then return false end
    local trailer = SEALED_NUMBER_LEN + TAG_LEN
    local behind = tvb:raw(at + HEADER_LEN + math.min(h.len, math.max(there, 0)), math.max(0, math.min(trailer, there - h.len)))
    return #behind == trailer and behind:sub(1, 2) ~= "\215\1" and behind:find("[^%z]") ~= nil
end

local RECEIPT_BEHIND_LEN = 24

-- The words of data, and of a receipt for data: bits 32–55 of an offset are beside eight flags.
local function words_of_pipe(h, is_stream)
    local word = h.is_data and h.length or h.offset
    local flags, high = word % 256, math.floor(word / 256)
    if h.is_data then
        h.data_len, h.pipe_at = h.procedure, high * 2 ^ 32 + h.offset
        h.has_receipt = has_bit(flags, 4) and not is_stream
        if h.has_receipt then flags = flags - 16 end
        if has_bit(flags, 5) then flags = flags - 32 end
        h.len = h.data_len + (h.has_receipt and RECEIPT_BEHIND_LEN or 0)
        h.ends, h.is_aborted = flags == 4, flags == 8
        local after = h.pipe_at + h.data_len + (h.ends and 1 or 0)
        if flags ~= 0 and not h.ends and not (h.is_aborted and h.data_len == 0) or h.data_len > 65528 or after > 2 ^ 56 then
            h.why = "no data of a pipe"
        end
    else
        h.pipe_high, h.len = high, math.min(h.length, PACKET_DATA)
        if flags ~= 0x80 and flags ~= 0x84 then h.why = "a receipt of neither a message nor a pipe" end
    end
end

-- The part of the message that a packet has.
local function place_of(h, is_stream)
    h.is_part = not is_stream and h.is_message and (h.is_sized or h.offset > 0)
    if h.is_part then
        if h.is_sized then
            h.len = h.offset
        else
            h.at, h.len = h.offset, h.procedure
        end
        local longest = PACKET_DATA - (h.is_checked and 8 or 0)
        if h.length <= longest - (h.has_bit_62 and 24 or 0) or h.len == 0 then
            h.why = "only a message that is longer than a packet travels in parts"
        elseif h.at + h.len > h.length then
            h.why = "the part does not lie within its message"
        end
    elseif h.is_sized then
        h.why = "only the first of several parts is sized"
    elseif h.offset > h.length then
        h.why = "the fragment does not lie within its message"
    else
        h.at = h.offset
        h.len = math.min(h.length - h.offset, is_stream and h.is_message and STREAM_FRAGMENT or NO_DEADLINE)
        if h.len > PACKET_DATA and not (is_stream and h.is_message) then h.why = "longer than a packet" end
    end
    if h.is_message and h.at == 0 then
        if h.kind == KIND.CALL then
            h.left = seconds_of_left(h.time)
        elseif h.time ~= NO_DEADLINE then
            h.at_server, h.is_queued = h.time / 1e9, h.time % 2 == 1
        end
    end
end

-- Reads a header. `len` is what its packet has of the message, from byte `at` of it on; `trailer` is what follows that. With `why` the
-- packet breaks the protocol.
local function parsed(raw, is_stream)
    local bytes = { raw:byte(1, HEADER_LEN) }
    local h = {
        magic = bytes[1], version = bytes[2], kind = bytes[3], flags = bytes[4], lane = le(bytes, 5, 2), procedure = le(bytes, 7, 2),
        binding = raw:sub(9, 16), number = le(bytes, 17, 4), length = le(bytes, 21, 4), offset = le(bytes, 25, 4),
        time = le(bytes, 29, 4), versions = raw:sub(25, 32), at = 0, len = 0, trailer = 0,
    }
    h.is_unbound = h.binding == ("\0"):rep(8) or h.binding == ("\0"):rep(7) .. "\128"
    h.is_checked = has_bit(bytes[16], 7) and not is_stream and h.kind ~= KIND.VERSIONS
    h.has_bit_62 = has_bit(bytes[16], 6) and not has_bit(bytes[16], 7)
    h.is_unknown_binding = h.kind == KIND.REFUSAL and h.time == 1
    h.has_word = h.kind == KIND.CHALLENGE or h.kind == KIND.PROOF or h.kind == KIND.VERSIONS or h.is_unknown_binding
    h.is_message = h.kind == KIND.CALL or h.kind == KIND.RESULT
    h.is_sized = has_bit(h.flags, 0)
    h.has_credit = has_bit(h.flags, 4) and h.is_message
    h.is_data = h.kind == KIND.DATA
    h.is_pipe_receipt = h.kind == KIND.RECEIPT and h.offset > 0
    h.has_pipe_out = has_bit(h.flags, 6)
    h.tells_pipe = h.has_pipe_out and (h.kind == KIND.RESULT or h.kind == KIND.FAILURE)
    h.is_bundle = has_bit(h.flags, 3) and h.is_message and h.has_bit_62 and not is_stream
    if h.magic ~= 0xd7 or (h.version ~= 1 and h.kind ~= KIND.VERSIONS) then
        h.is_foreign = true
        return h
    end
    if not kinds[h.kind] then h.why = "unknown kind" end
    h.trailer = h.is_checked and CHECKSUM_LEN or 0
    if h.is_data or h.is_pipe_receipt then
        words_of_pipe(h, is_stream)
    elseif not h.has_word then
        place_of(h, is_stream)
    end
    -- The top bit of the procedure's number, where that is.
    local names_procedure = h.is_message and not h.is_bundle and not (h.is_part and not h.is_sized) and not (h.kind == KIND.RESULT and h.has_credit)
    if names_procedure and h.procedure >= 0x8000 then h.has_metadata, h.procedure = true, h.procedure - 0x8000 end
    return h
end

-- The same of the header at `at`, of which all is there, and whether its packet is sealed.
local function header_of(tvb, at, is_stream)
    local h = parsed(tvb:raw(at, HEADER_LEN), is_stream)
    -- Only hints travel unsealed on a sealed binding. A stream is sealed as a whole.
    local may_be_sealed = h.has_bit_62 and not is_stream and not h.is_unknown_binding and h.kind ~= KIND.VERSIONS
    h.is_sealed = may_be_sealed and not (h.is_foreign or h.why) and is_sealed_at(tvb, at, h)
    if h.is_sealed then h.trailer = SEALED_NUMBER_LEN + TAG_LEN end
    return h
end

local UNNUMBERED = {
    [KIND.BIND] = true, [KIND.BIND_REPLY] = true, [KIND.UNBIND] = true, [KIND.DESCRIBE] = true, [KIND.DESCRIPTION] = true,
}
local EMPTY = { [KIND.ACKNOWLEDGEMENT] = true, [KIND.PROBE] = true, [KIND.UNBIND] = true, [KIND.CANCEL] = true }
local SHORTEST = {
    [KIND.BIND] = 443, [KIND.BIND_REPLY] = 63, [KIND.DESCRIBE] = 1432, [KIND.DESCRIPTION] = 10, [KIND.RECEIPT] = 16,
    [KIND.PROBES] = 6, [KIND.ACKNOWLEDGEMENTS] = 6,
}

-- Whether nothing but Stoop sends such a packet: for traffic of which nothing else is known. `payload` is what is there of it.
local function is_surely_ours(h, payload, is_stream)
    if h.is_foreign or h.why or h.kind == KIND.HANDSHAKE or h.kind == KIND.ATTACH then return false end
    if h.kind == KIND.VERSIONS then return h.flags == 0 and h.version > 0 and h.versions:find(string.char(h.version), 1, true) ~= nil end
    local of_pipes = h.kind == KIND.CALL and h.flags - h.flags % 32 or h.tells_pipe and 64 or 0
    local flags = (h.is_sized and 1 or 0) + (h.has_credit and 16 or 0) + (of_pipes < 128 and of_pipes or 0)
        + (h.is_sealed and has_bit(h.flags, 2) and 4 or 0) + (h.is_sealed and h.is_bundle and 8 or 0)
    if h.flags ~= flags or h.lane >= (is_stream and 1024 or 32768) then return false end
    if UNNUMBERED[h.kind] then
        if h.lane > 0 or h.procedure > 0 then return false end
    elseif h.is_unbound and h.kind ~= KIND.CHALLENGE then
        return false
    end
    if h.has_word or h.is_sealed then return true end
    if h.is_data then return true end
    if not h.is_message and h.offset > 0 and not h.is_pipe_receipt then return false end
    if EMPTY[h.kind] then return h.length == 0 and (h.kind == KIND.UNBIND and h.number == 0 or h.time == 0) end
    if h.kind == KIND.REFUSAL or h.kind == KIND.FAILURE then return h.length <= 520 and h.time > 0 and h.time < 256 end
    if h.kind == KIND.PROBES or h.kind == KIND.ACKNOWLEDGEMENTS then
        if h.length % 6 > 0 or h.time > 0 then return false end
    elseif h.kind == KIND.RECEIPT then
        if h.length % 8 > 0 or h.length > 272 or h.time == 0 then return false end
    end
    if h.length < (SHORTEST[h.kind] or 0) then return false end
    -- The number of these is the low half of the nonce.
    return not NONCE_AT[h.kind] or h.time == 0 and has_its_nonce(h, payload)
end

-- Reads a payload field by field, and never behind its end.
local Cursor = {}
Cursor.__index = Cursor

local function cursor(tvb, at, len, tree)
    return setmetatable({ tvb = tvb, at = at, stop = at + len, tree = tree }, Cursor)
end

-- The next bytes; `nil` if there are not so many, and from then on.
function Cursor:take(count)
    if self.is_short or count > self.stop - self.at then
        self.is_short = true
        return nil
    end
    local range = self.tvb(self.at, count)
    self.at = self.at + count
    return range
end

-- Adds the next bytes as a little-endian number, and gives its value if it has at most four bytes.
function Cursor:number(field, count, tree)
    local range = self:take(count)
    if not range then return nil end
    local item = (tree or self.tree):add_le(field, range)
    return count <= 4 and range:le_uint() or range, item
end

-- The same for bytes in their order.
function Cursor:bytes(field, count)
    local range = count > 0 and self:take(count)
    return range and self.tree:add(field, range)
end

-- Two bytes of length, and so many of text.
function Cursor:text(field)
    local length = self:take(2)
    local count = length and length:le_uint()
    if count == 0 then
        self.tree:add(field, length, "")
        return ""
    end
    local range = count and self:take(count)
    if not range then return "" end
    self.tree:add(field, range, range:string(ENC_UTF_8))
    return range:string(ENC_UTF_8)
end

-- A fingerprint or a binding, as names have it.
local function hexadecimal(range)
    return (range:raw():reverse():gsub(".", function(byte) return string.format("%02x", byte:byte()) end))
end

-- Text of a peer for the column of summaries.
local function printable(text)
    return (text:gsub("[%c\127]", "."))
end

local function with_signature(item, fingerprint)
    local known = names.by_fingerprint[fingerprint]
    if known then
        item:append_text(" " .. known.interface .. ": " .. known.signature)
        item:add(F.signature, known.signature):set_generated()
    end
end

local EXTENSIONS = {
    [2] = { F.packet_data }, [3] = { F.lanes }, [4] = { F.initial_credit }, [5] = { F.metadata_max },
}

local function add_extensions(c)
    while not c.is_short and c.at < c.stop do
        local begin = c.at
        local kind, item = c:number(F.extension, 2)
        local length = kind and c:number(F.extension_length, 2, item)
        local range = length and length > 0 and c:take(length)
        if range then
            local field = EXTENSIONS[kind]
            if kind == 1 and length == 16 then
                item:add_le(F.clock, range(0, 8))
                item:add_le(F.up, range(8, 8))
            elseif field and length == 4 then
                item:add_le(field[1], range)
            else
                item:add(F.extension_value, range)
            end
        end
        if item then item:set_len(c.at - begin) end
    end
end

local function add_binding_flags(c, field)
    local value, item = c:number(field, 4)
    if value then
        local range = c.tvb(c.at - 4, 4)
        item:add_le(F.flag_checksums, range)
        item:add_le(F.flag_unchecked, range)
    end
end

local function add_host(c)
    c:bytes(F.boot_id, 16)
    c:number(F.cpus, 2)
    c:number(F.only_cpu, 2)
end

local payloads = {}

payloads[KIND.BIND] = function(c, found)
    c:number(F.nonce, 8)
    local cookie = c:number(F.cookie, 8)
    add_binding_flags(c, F.required)
    add_binding_flags(c, F.wanted)
    c:number(F.max_result, 4)
    c:number(F.result_window, 4)
    add_host(c)
    local first = c:number(F.first, 2)
    local count = c:number(F.count, 2) or 0
    local interface = c:text(F.interface)
    local fingerprints = {}
    for position = 1, math.min(count, 128) do
        local range, item = c:number(F.fingerprint, 8)
        if not range then break end
        fingerprints[position] = hexadecimal(range)
        with_signature(item, fingerprints[position])
    end
    if count > 128 then c.is_short = true end
    add_extensions(c)
    found.summary = " " .. interface
    if not c.is_short then
        found.told = { first = first, cookie = cookie:raw(), interface = printable(interface), fingerprints = fingerprints }
    end
end

payloads[KIND.BIND_REPLY] = function(c, found)
    local status = c:number(F.status, 1)
    c:number(F.nonce, 8)
    c:number(F.incarnation, 8)
    add_binding_flags(c, F.chosen)
    c:number(F.silence, 4)
    c:number(F.max_call, 4)
    c:number(F.call_window, 4)
    add_host(c)
    local first = c:number(F.first, 2)
    local count = c:number(F.count, 2) or 0
    local text = c:text(F.text)
    local numbers = {}
    for position = 1, math.min(count, 128) do
        local number, item = c:number(F.procedure_number, 2)
        if not number then break end
        numbers[position] = number
        if number == 65535 then item:append_text(" (no fingerprint agrees)") end
    end
    if count > 128 then c.is_short = true end
    add_extensions(c)
    if c.is_short then return end
    found.told = { first = first, status = status, numbers = numbers }
    local word = statuses[status] or "status " .. status
    found.summary = ": " .. word
    if status ~= 0 then found.expert = { X.not_bound, "Not bound: " .. word .. (text ~= "" and " (" .. text .. ")" or "") } end
end

payloads[KIND.DESCRIBE] = function(c, found)
    c:number(F.nonce, 8)
    local interface = c:text(F.interface)
    found.summary = " " .. interface .. "." .. c:text(F.described)
    if c.at < c.stop then c:bytes(F.padding, c.stop - c.at) end
end

payloads[KIND.DESCRIPTION] = function(c, found)
    c:number(F.nonce, 8)
    local signature = c:text(F.description)
    found.summary = signature == "" and ": no such procedure" or " " .. signature
end

-- Of a receipt: what every one has. `high`: bits 32–55 of the offset, of a receipt for data.
local function add_receipt(c, high)
    c:number(F.latest, 4)
    c:number(F.delay, 4)
    c:number(F.limit, 4)
    local up_to, item = c:number(F.up_to, 4)
    if up_to and high then
        item:add(F.pipe_up_to, UInt64.new(up_to, high)):set_generated()
        up_to = high * 2 ^ 32 + up_to
    end
    return up_to and (high and " for data" or "") .. " up to byte " .. string.format("%.0f", up_to)
end

payloads[KIND.RECEIPT] = function(c, found, h)
    found.summary = add_receipt(c, h.is_pipe_receipt and h.pipe_high)
    while not c.is_short and c.at < c.stop do
        c:number(F.range_begin, 4)
        c:number(F.range_end, 4)
    end
end

payloads[KIND.DATA] = function(c, found, h)
    c:bytes(F.data, math.min(h.data_len, c.stop - c.at))
    local last = string.format("%.0f", h.pipe_at + h.data_len)
    local ends = h.is_aborted and ": aborted" or h.ends and ": the end" or h.data_len == 0 and ": a question" or ""
    found.summary = string.format(" %.0f–%s of the pipe", h.pipe_at, last) .. ends
    if not h.has_receipt then return end
    c:number(F.receipt, 4)
    local word = c:take(4)
    if not word then return end
    c.tree:add(F.pipe_receipt, word(0, 1))
    c.tree:add(F.pipe_stop, word(0, 1))
    local told = add_receipt(c, word(1, 3):le_uint())
    if told then found.summary = found.summary .. ", and a receipt" .. told end
end

local function add_calls(c, found, h)
    local count = 0
    while not c.is_short and c.at < c.stop do
        local lane, item = c:number(F.listed_lane, 2)
        c:number(F.listed_number, 4, item)
        count = count + 1
        if item and h.kind == KIND.ACKNOWLEDGEMENTS then
            item:append_text(count <= h.procedure and " (acknowledged)" or " (not there)")
        end
    end
    found.summary = " of " .. count .. " calls"
    if h.kind == KIND.ACKNOWLEDGEMENTS then found.summary = ": " .. h.procedure .. found.summary end
end
payloads[KIND.PROBES] = add_calls
payloads[KIND.ACKNOWLEDGEMENTS] = add_calls

-- What begins the results, or the explanation of a failure, of a call with a pipe to its caller.
local function add_pipe_length(c, h)
    if h.tells_pipe then c:number(F.pipe_length, 8) end
end

local function add_explanation(c, found, h)
    add_pipe_length(c, h)
    local range = c.stop > c.at and c:take(c.stop - c.at)
    if range then c.tree:add(F.explanation, range, range:string(ENC_UTF_8)) end
end
payloads[KIND.REFUSAL] = add_explanation
payloads[KIND.FAILURE] = add_explanation

-- Arguments or results of a message of which `c` has all, and the metadata behind them. Its last two bytes are the length of that.
local function add_content(c, h, has_metadata)
    local block = 0
    if has_metadata and c.stop - c.at >= 4 then block = c.tvb(c.stop - 2, 2):le_uint() end
    if has_metadata and (block < 4 or block > c.stop - c.at) then
        c.is_short = true
        return
    end
    add_pipe_length(c, h)
    c:bytes(h.kind == KIND.CALL and F.arguments or F.results, c.stop - block - c.at)
    if block > 0 then
        c:bytes(F.metadata, block - 2)
        c:number(F.metadata_length, 2)
    end
end

