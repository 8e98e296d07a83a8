-- A packet in the tree and in the column of summaries.

-- CRC-32C, byte by byte (RFC 3720 §12.1).
local crc_table = {}
for byte = 0, 255 do
    local value = byte
    for _ = 1, 8 do
        local low = value % 2
        value = bits.rshift(value, 1)
        if low == 1 then value = bits.bxor(value, 0x82f63b78) end
    end
    crc_table[byte] = value
end

local function crc32c(bytes)
    local bxor, band, rshift = bits.bxor, bits.band, bits.rshift
    local crc = 0xffffffff
    for at = 1, #bytes, 64 do
        local chunk = { bytes:byte(at, at + 63) }
        for i = 1, #chunk do crc = bxor(crc_table[band(bxor(crc, chunk[i]), 0xff)], rshift(crc, 8)) end
    end
    return bxor(crc, 0xffffffff)
end

-- Says whether a checksum is right: `sent` is the range that has it, or nil if that was not captured.
local function add_checksum(tree, field, status_field, warning, sent, computed)
    if not sent then
        tree:add(status_field, 3):set_generated()
        return
    end
    local item = tree:add_le(field, sent)
    local status = 2
    if computed then status = computed == sent:le_uint() and 1 or 0 end
    tree:add(status_field, status):set_generated()
    if status == 0 then item:add_proto_expert_info(warning, string.format("The checksum should be 0x%08x", computed)) end
end

local function add_flags(tree, tvb, at, h)
    local item = tree:add(F.flags, tvb(at + 3, 1))
    if h.flags > 0 then
        for _, field in ipairs({ F.flag_sized, F.flag_key_phase, F.flag_bundle, F.flag_free, F.flag_credit, F.flag_pipe_in,
            F.flag_pipe_out }) do
            item:add(field, tvb(at + 3, 1))
        end
    end
end

-- Bytes 6–7.
local function add_procedure(tree, range, h)
    local field = F.procedure
    if h.is_bundle then
        field = F.apart
    elseif h.is_part and not h.is_sized then
        field = F.part_length
    elseif h.is_data then
        field = F.data_length
    elseif h.is_unknown_binding then
        field = F.up_time
    elseif h.kind == KIND.REFUSAL then
        field = F.retry_after
    elseif h.kind == KIND.ACKNOWLEDGEMENTS then
        field = F.acknowledged
    elseif h.kind == KIND.RESULT and h.has_credit then
        field = F.credit
    end
    tree:add_le(field, range)
    if h.has_metadata then tree:add_le(F.has_metadata, range) end
end

-- Bytes 20–27.
local function add_lengths(tree, tvb, at, h)
    if h.kind == KIND.CHALLENGE or h.kind == KIND.PROOF then
        tree:add_le(F.cookie, tvb(at + 20, 8))
    elseif h.is_unknown_binding then
        tree:add_le(F.incarnation, tvb(at + 20, 8))
    elseif h.is_data then
        tree:add(F.pipe_end, tvb(at + 20, 1))
        tree:add(F.pipe_abort, tvb(at + 20, 1))
        tree:add(F.pipe_followed, tvb(at + 20, 1))
        tree:add(F.pipe_waited, tvb(at + 20, 1))
        tree:add(F.pipe_offset, tvb(at + 21, 7), UInt64.new(h.offset, math.floor(h.length / 256)))
    elseif h.is_pipe_receipt then
        tree:add_le(F.message_length, tvb(at + 20, 4))
        tree:add(F.pipe_receipt, tvb(at + 24, 1))
        tree:add(F.pipe_stop, tvb(at + 24, 1))
    else
        tree:add_le(F.message_length, tvb(at + 20, 4))
        tree:add_le(h.is_part and h.is_sized and F.part_length or F.offset, tvb(at + 24, 4))
    end
end

-- Bytes 28–31.
local function add_time(tree, range, h)
    if h.kind == KIND.REFUSAL then
        tree:add_le(F.refusal, range)
    elseif h.kind == KIND.FAILURE then
        tree:add_le(F.failure, range)
    elseif h.kind == KIND.UNBIND then
        tree:add_le(F.unbind, range)
    elseif h.kind == KIND.RECEIPT then
        tree:add_le(F.receipt, range)
    elseif h.is_data or h.is_part and h.at > 0 then
        tree:add_le(F.transmission, range)
    elseif h.left then
        tree:add(F.left, range, span(h.left))
    elseif h.at_server then
        tree:add(F.server_time, range, span(h.at_server))
        tree:add(F.queued, range, h.is_queued)
    else
        local item = tree:add_le(F.time, range)
        if h.is_message and h.at == 0 then
            item:append_text(h.kind == KIND.CALL and " (no deadline)" or " (longer than can be told)")
        end
    end
end

local function add_header(tree, tvb, at, h)
    tree:add(F.magic, tvb(at, 1))
    tree:add(F.version, tvb(at + 1, 1))
    tree:add(F.kind, tvb(at + 2, 1))
    add_flags(tree, tvb, at, h)
    tree:add_le(F.lane, tvb(at + 4, 2))
    add_procedure(tree, tvb(at + 6, 2), h)
    tree:add_le(F.binding, tvb(at + 8, 8))
    if h.is_sealed then tree:add(F.sealed, tvb(at + 15, 1), true) end
    tree:add_le(F.number, tvb(at + 16, 4))
    if h.kind == KIND.VERSIONS then
        for i = 0, 7 do
            if tvb(at + 24 + i, 1):uint() == 0 then break end
            tree:add(F.versions, tvb(at + 24 + i, 1))
        end
        return
    end
    add_lengths(tree, tvb, at, h)
    add_time(tree, tvb(at + 28, 4), h)
end

-- The relations of the record to other packets.
local function add_relations(tree, record)
    if record.asked and record.asked.answer then tree:add(F.response_in, record.asked.answer):set_generated() end
    if record.to then tree:add(F.response_to, record.to):set_generated() end
    if record.response_time then tree:add(F.response_time, span(record.response_time)):set_generated() end
    if record.network_time then tree:add(F.network_time, span(record.network_time)):set_generated() end
    if record.side and record.side.frame then tree:add(F.reassembled_in, record.side.frame):set_generated() end
    if record.retransmission then
        tree:add(F.retransmission, record.retransmission):set_generated()
        tree:add_proto_expert_info(X.retransmission, "Retransmission: sent before in frame " .. record.retransmission)
    end
    if record.duplicate then
        tree:add(F.duplicate, record.duplicate):set_generated()
        tree:add_proto_expert_info(X.duplicate, "The same packet as in frame " .. record.duplicate)
    end
    if record.is_late then tree:add_proto_expert_info(X.late, "The answer comes after the deadline of its call") end
end

-- Packets that are not about one call.
local UNNAMED = {
    [KIND.BIND] = true, [KIND.BIND_REPLY] = true, [KIND.UNBIND] = true, [KIND.DESCRIBE] = true, [KIND.DESCRIPTION] = true,
    [KIND.VERSIONS] = true, [KIND.PROBES] = true, [KIND.ACKNOWLEDGEMENTS] = true,
}

local function add_name(tree, h, record)
    if UNNAMED[h.kind] then return "" end
    local procedure = record.call and record.call.procedure
    if h.kind == KIND.CALL and h.at == 0 or h.kind == KIND.PROBE then procedure = procedure or h.procedure end
    if not procedure then return "" end
    local name, signature = procedure_name(h.binding, procedure)
    local item = tree:add(F.procedure_name, name):set_generated()
    if signature then tree:add(F.signature, signature):set_generated() end
    return " " .. printable(name)
end

local function summary_of(h, record, name, found)
    if h.is_bundle then return "Bundle" .. (record.opened and " (opened)" or " (sealed)") end
    local parts = { (kinds[h.kind] or "Kind " .. h.kind):gsub(" %(reserved%)", ""), name }
    if h.is_sealed then parts[#parts + 1] = record.opened and " (opened)" or " (sealed)" end
    if h.is_opened then parts[#parts + 1] = " (opened)" end
    if found.summary then parts[#parts + 1] = printable(found.summary) end
    if not (h.is_unbound or UNNAMED[h.kind]) then
        parts[#parts + 1] = ", lane " .. h.lane .. " call " .. h.number
    end
    if h.len < h.length and h.is_message and not h.why then
        parts[#parts + 1] = string.format(", bytes %d–%d of %d", h.at, h.at + h.len - 1, h.length)
    end
    if h.is_message and h.at_server then parts[#parts + 1] = ", " .. told(h.at_server) .. " at the server" end
    if h.kind == KIND.REFUSAL then parts[#parts + 1] = ": " .. (refusals[h.time] or "reason " .. h.time) end
    if h.kind == KIND.FAILURE then parts[#parts + 1] = ": " .. (failures[h.time] or "reason " .. h.time) end
    if record.retransmission then table.insert(parts, 1, "[Again] ") end
    if record.duplicate then table.insert(parts, 1, "[Same packet] ") end
    return table.concat(parts)
end

local function add_outcome(tree, h, record)
    if h.kind == KIND.REFUSAL and record.is_notice then
        tree:add_proto_expert_info(X.notice, "Notice: the server shuts down")
    elseif h.kind == KIND.REFUSAL then
        tree:add_proto_expert_info(X.refused, "Refused: " .. (refusals[h.time] or "reason " .. h.time))
    elseif h.kind == KIND.FAILURE then
        tree:add_proto_expert_info(X.failed, "Failed: " .. (failures[h.time] or "reason " .. h.time))
    elseif h.kind == KIND.CANCEL then
        tree:add_proto_expert_info(X.cancelled)
    end
end

-- Whether metadata stands behind the arguments or results: a result that grants credit, and a later part, do not say so themselves.
local function has_metadata(h, record)
    return h.has_metadata or record.call and record.call.has_metadata
end

-- The payload, of which `there` bytes were captured, up to its trailer.
local function add_payload(tree, tvb, at, h, there, found, has_metadata, opened)
    local c = cursor(tvb, at, there, tree)
    if there == 0 and not payloads[h.kind] then return end
    if opened then
        c:bytes(F.sealed_data, there)
        -- Wireshark makes no bytes of nothing.
        if there > 0 then c = cursor(ByteArray.new(opened, true):tvb("Opened data"), 0, there, tree) end
    end
    if h.is_sealed and not opened then
        c:bytes(F.sealed_data, there)
    elseif h.is_bundle then
        return
    elseif h.is_message then
        if h.len == h.length then add_content(c, h, has_metadata) else c:bytes(F.part, there) end
    elseif payloads[h.kind] then
        payloads[h.kind](c, found, h)
    else
        c:bytes(F.data, there)
    end
    if c.is_short and there == h.len then found.why = "the payload of this kind ends too early, or has too much" end
end

local function add_trailer(tree, tvb, at, h)
    local there = tvb:len() - at
    if h.is_sealed and there >= h.trailer then
        tree:add_le(F.sealed_number, tvb(at, SEALED_NUMBER_LEN))
        tree:add(F.tag, tvb(at + SEALED_NUMBER_LEN, TAG_LEN))
    elseif h.is_checked then
        local sent = there >= CHECKSUM_LEN and tvb(at, CHECKSUM_LEN) or nil
        local covered = HEADER_LEN + h.len
        local computed = sent and stoop.prefs.checksums and crc32c(tvb:raw(at - covered, covered)) or nil
        add_checksum(tree, F.checksum, F.checksum_status, X.checksum, sent, computed)
    end
end

-- The data of a sealed datagram, if all of it was captured and the key log has its secrets.
local function opened_at(tvb, at, h)
    local stop = at + HEADER_LEN + h.len
    if tvb:len() < stop + h.trailer then return nil end
    local number, tag = tvb:raw(stop, SEALED_NUMBER_LEN), tvb:raw(stop + SEALED_NUMBER_LEN, TAG_LEN)
    return open_sealed(h, tvb:raw(at, HEADER_LEN), h.len > 0 and tvb:raw(at + HEADER_LEN, h.len) or "", number, tag)
end

local function note(record, context, h, pinfo, payload, found)
    local frame, time = pinfo.number, pinfo.rel_ts
    local ends = context.ends
    if h.kind == KIND.BIND then
        if found.told then
            note_bind(record, ends, h, frame, time, found.told)
            -- A handshake: records may follow.
            local is_handshake = context.is_stream and not h.is_opened and found.told.interface == "StoopSeal"
            if is_handshake then streams[ends] = { caller = context.from, sides = {} } end
        end
    elseif h.kind == KIND.BIND_REPLY then
        if found.told then note_bind_reply(record, ends, h, frame, time, found.told) end
    elseif h.kind == KIND.DESCRIBE or h.kind == KIND.DESCRIPTION then
        note_described(record, ends, h, frame, time)
    elseif h.kind == KIND.CHALLENGE and h.lane == 0 and h.is_unbound then
        note_challenge_of_bind(record, ends, h, frame, time)
    elseif h.kind ~= KIND.UNBIND and h.kind ~= KIND.VERSIONS then
        note_call_packet(record, ends, h, frame, time, payload)
    end
end

-- A packet of another version, of which only the beginning and the binding are known.
local function add_foreign(tree, tvb, at, h)
    tree:add(F.magic, tvb(at, 1))
    tree:add(F.version, tvb(at + 1, 1)):add_proto_expert_info(X.version, "Version " .. h.version .. " of the protocol")
    tree:add(F.kind, tvb(at + 2, 1))
    tree:add_le(F.binding, tvb(at + 8, 8))
    return "Version " .. h.version
end

local dissect_packet

-- The packets of a bundle, each as if it had been sealed by itself. `at`: where the bundle begins in what carries it.
local function dissect_bundle(opened, pinfo, tree, at, h, context)
    local packets = ByteArray.new(opened, true):tvb("Opened bundle")
    local inner = setmetatable({ begins = at + HEADER_LEN }, { __index = context })
    for from = 0, #opened - HEADER_LEN, math.max(h.procedure, HEADER_LEN) do
        local of_packet = parsed(packets:raw(from, HEADER_LEN), false)
        of_packet.is_opened = true
        dissect_packet(packets, pinfo, tree, from, HEADER_LEN + of_packet.len, of_packet, inner)
    end
end

-- Dissects the packet whose header is at `at`; `size` is its length with its trailer. Adds its summary to those of the context.
function dissect_packet(tvb, pinfo, tree, at, size, h, context)
    local end_of_capture = tvb:len()
    local item = tree:add(stoop, tvb(at, math.min(size, end_of_capture - at)))
    if h.is_foreign then
        context.summaries[#context.summaries + 1] = add_foreign(item, tvb, at, h)
        return
    end
    local there = math.max(0, math.min(h.len, end_of_capture - at - HEADER_LEN))
    add_header(item, tvb, at, h)
    local record, found = {}, {}
    local payload_at = at + HEADER_LEN
    if h.why then
        if there > 0 then item:add(F.data, tvb(payload_at, there)) end
        found.why = h.why
    else
        local is_new = false
        -- A packet that an ICMP error quotes was sent before.
        if not context.is_quoted then record, is_new = record_of(pinfo.number, (context.begins or 0) + at, tvb:raw(at, HEADER_LEN)) end
        if is_new and h.is_sealed then record.opened = opened_at(tvb, at, h) end
        if record.opened then item:add(F.opened, true):set_generated() end
        add_payload(item, tvb, payload_at, h, there, found, has_metadata(h, record), record.opened)
        if is_new and not h.is_bundle then
            local plain = h.is_sealed and record.opened or not h.is_sealed and tvb:raw(payload_at, there)
            local payload = there == h.len and h.is_message and h.len < h.length and plain or nil
            note(record, context, h, pinfo, payload, found)
        end
        if there == h.len then add_trailer(item, tvb, payload_at + there, h) end
    end
    local name = not h.is_bundle and add_name(item, h, record) or nil
    add_relations(item, record)
    add_outcome(item, h, record)
    if found.expert then item:add_proto_expert_info(found.expert[1], found.expert[2]) end
    if found.why then item:add_proto_expert_info(X.malformed, "Malformed: " .. found.why) end
    if there < h.len then item:add_proto_expert_info(X.clipped) end
    if record.message then
        -- A long result does not say so itself.
        h.tells_pipe = h.tells_pipe or h.kind == KIND.RESULT and record.call.has_pipe_out
        local whole = ByteArray.new(record.message, true):tvb("Message of " .. #record.message .. " bytes")
        item:add(F.packets, record.packets):set_generated()
        add_content(cursor(whole, 0, #record.message, item), h, has_metadata(h, record))
    end
    local summary = summary_of(h, record, name, found)
    item:append_text(": " .. summary)
    context.summaries[#context.summaries + 1] = summary
    if h.is_bundle and record.opened then dissect_bundle(record.opened, pinfo, item, at, h, context) end
end

