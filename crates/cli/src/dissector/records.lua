
-- Sealed byte streams: records, and the messages that are cut into them. The number of a record is its place, so that a stream is
-- opened from its beginning.

-- Bytes of the record that begins with these four bytes. `nil`: none does, or no handshake came before. No header begins as a record does:
-- its third byte is a kind, that of a record 0.
local function record_len(tvb, at, context)
    local len = streams[context.ends] and not context.is_quoted and tvb(at, RECORD_HEADER_LEN):le_uint() % 0x80000000
    return len and len > 0 and len <= RECORD_DATA_MAX and RECORD_HEADER_LEN + len + TAG_LEN or nil
end

local function side_of(stream, from)
    local side = stream.sides[from]
    if not side then
        side = { direction = from == stream.caller and 1 or 2, count = 0, phase = 0, rest = "" }
        stream.sides[from] = side
    end
    return side
end

-- The messages that end with these bytes of the stream. One that breaks the protocol is the last.
local function messages_of(side, plain)
    local messages = {}
    side.rest = side.rest .. plain
    while #side.rest >= HEADER_LEN and not side.is_lost do
        local h = parsed(side.rest:sub(1, HEADER_LEN), true)
        side.is_lost = h.is_foreign or h.why ~= nil
        local size = side.is_lost and #side.rest or HEADER_LEN + h.len
        if #side.rest < size then break end
        messages[#messages + 1] = side.rest:sub(1, size)
        side.rest = side.rest:sub(size + 1)
    end
    return messages
end

-- What is known of the record. One with the same tag is the same record, which Wireshark shows again.
local function known_record(stream, context, bytes)
    local tag = bytes:sub(-TAG_LEN)
    local key = context.ends .. context.from .. tag
    local record = opened_records[key]
    if not record then
        local side = side_of(stream, context.from)
        record = { number = side.count }
        opened_records[key] = record
        local data = bytes:sub(RECORD_HEADER_LEN + 1, -TAG_LEN - 1)
        record.opened = open_record(stream, side, bytes:sub(1, RECORD_HEADER_LEN), data, tag)
        record.messages = record.opened and messages_of(side, record.opened) or {}
        side.count = side.count + 1
    end
    return record
end

-- Dissects the record that fills `tvb`; `size` is its length.
local function dissect_record(tvb, pinfo, tree, size, context)
    local stream = streams[context.ends]
    local item = tree:add(stoop, tvb())
    item:add_le(F.record_length, tvb(0, RECORD_HEADER_LEN))
    item:add_le(F.record_phase, tvb(0, RECORD_HEADER_LEN))
    item:add(F.sealed, tvb(3, 1), true)
    local summary = "Sealed record"
    local there = math.min(tvb:len(), size - TAG_LEN) - RECORD_HEADER_LEN
    if there > 0 then item:add(F.sealed_data, tvb(RECORD_HEADER_LEN, there)) end
    if tvb:len() < size then
        side_of(stream, context.from).is_lost = true
        item:add_proto_expert_info(X.clipped)
    else
        item:add(F.tag, tvb(size - TAG_LEN, TAG_LEN))
        local record = known_record(stream, context, tvb:raw(0, size))
        if record.opened then
            summary = "Record " .. record.number .. " (opened)"
            item:add(F.sealed_number, UInt64(record.number)):set_generated()
            item:add(F.opened, true):set_generated()
            local opened = ByteArray.new(record.opened, true):tvb("Opened record")
            item:add(F.stream_data, opened())
        end
        for _, bytes in ipairs(record.messages) do
            local message = ByteArray.new(bytes, true):tvb("Opened message")
            local h = header_of(message, 0, true)
            h.is_opened = true
            dissect_packet(message, pinfo, item, 0, #bytes, h, context)
        end
        if #record.messages > 0 then
            item:append_text(": " .. summary)
            return
        end
    end
    item:append_text(": " .. summary)
    context.summaries[#context.summaries + 1] = summary
end
