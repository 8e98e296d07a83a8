-- What carries packets: datagrams, streams, frames.

local quoted_by = { Field.new("icmp.type"), Field.new("icmpv6.type") }

local function new_context(pinfo, is_stream)
    local ends = { tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port }
    local context = { from = ends[1], is_stream = is_stream, summaries = {} }
    table.sort(ends)
    context.ends = table.concat(ends, "|") .. "|"
    context.is_quoted = quoted_by[1]() ~= nil or quoted_by[2]() ~= nil
    return context
end

local function show_summaries(pinfo, context)
    if context.is_quoted or #context.summaries == 0 then return end
    pinfo.cols.protocol = "Stoop"
    local shown = table.concat(context.summaries, " | ", 1, math.min(#context.summaries, 8))
    if #context.summaries > 8 then shown = shown .. " | and " .. (#context.summaries - 8) .. " more" end
    pinfo.cols.info = shown
end

-- The header at `at`, if one is captured there that is of a packet of ours in the bytes before `stop`.
local function packet_at(tvb, at, stop)
    if tvb:len() - at < HEADER_LEN then return nil end
    local h = header_of(tvb, at, false)
    local len = HEADER_LEN + h.len + h.trailer
    local payload = tvb:raw(at + HEADER_LEN, math.min(h.len, tvb:len() - at - HEADER_LEN, 16))
    if at + len > stop or not is_surely_ours(h, payload, false) then return nil end
    return h, len
end

-- Where the next packet begins behind `at`: answers that leave together are filled up with zeros to one length. `stop` if there is none.
local function behind_padding(tvb, at, stop)
    stop = math.min(stop, tvb:len())
    while at < stop and tvb(at, 1):uint() == 0 do at = at + 1 end
    return at
end

-- All packets from `at` to `stop`. A capture at the sender may have several in a datagram, which the kernel or the network card divides
-- later (UDP_SEGMENT).
local function dissect_datagram(tvb, pinfo, tree, at, stop, context)
    if tvb:len() - at < HEADER_LEN then return false end
    local h = header_of(tvb, at, false)
    if h.magic ~= 0xd7 then return false end
    while true do
        local size = math.min(HEADER_LEN + h.len + h.trailer, stop - at)
        if h.is_foreign or h.why then size = stop - at end
        dissect_packet(tvb, pinfo, tree, at, size, h, context)
        at = at + size
        local next_at = behind_padding(tvb, at, stop)
        h = packet_at(tvb, next_at, stop)
        if not h then break end
        at = next_at
    end
    local rest = math.min(stop, tvb:len()) - at
    if rest > 0 then tree:add(F.padding, tvb(at, rest)) end
    return true
end

function stoop.dissector(tvb, pinfo, tree)
    local context = new_context(pinfo, false)
    if not dissect_datagram(tvb, pinfo, tree, 0, tvb:reported_len(), context) then return 0 end
    show_summaries(pinfo, context)
    return tvb:len()
end

-- Only what is surely ours: any protocol may use any port.
local function is_our_datagram(tvb)
    local stop = tvb:reported_len()
    local h, len = packet_at(tvb, 0, stop)
    if not h then return false end
    local behind = behind_padding(tvb, len, stop)
    -- Answers are filled up with at most 128 zeros, and to a multiple of 8.
    return behind == math.min(stop, tvb:len()) and behind - len < 136 or packet_at(tvb, behind, stop) ~= nil
end

stoop:register_heuristic("udp", function(tvb, pinfo, tree)
    if not is_our_datagram(tvb) then return false end
    pinfo.conversation = stoop
    stoop.dissector(tvb, pinfo, tree)
    return true
end)

-- Bytes of the packet or record at `at`, and whether it is a record; `nil` if too few are there to tell.
local function unit_at(tvb, at, context)
    local there = tvb:len() - at
    local record = there >= RECORD_HEADER_LEN and record_len(tvb, at, context)
    if record then return record, true end
    if there < HEADER_LEN then return nil end
    local h = header_of(tvb, at, true)
    if h.is_foreign or h.why then return there end
    return HEADER_LEN + h.len + h.trailer
end

local function dissect_in_stream(tvb, pinfo, tree, context)
    local h = header_of(tvb, 0, true)
    if h.magic == 0xd7 then
        dissect_packet(tvb, pinfo, tree, 0, tvb:len(), h, context)
    else
        -- Behind packets that the capture lacks.
        tree:add(stoop, tvb()):append_text(": in the middle of a packet"):add(F.data, tvb())
        context.summaries[#context.summaries + 1] = "In the middle of a packet"
    end
end

-- The packets and records of a segment, one after the other. `dissect_tcp_pdus` is not for this: it does not desegment in the segment by
-- which a heuristic knows a stream, and a record may be shorter than a header.
local function dissect_stream(tvb, pinfo, tree)
    local context = new_context(pinfo, true)
    local at, there = 0, tvb:len()
    local is_clipped = there < tvb:reported_len()
    local size, is_record
    while at < there do
        size, is_record = unit_at(tvb, at, context)
        if not size or at + size > there and not is_clipped then break end
        local unit = tvb(at, math.min(size, there - at)):tvb()
        if is_record then
            dissect_record(unit, pinfo, tree, size, context)
        else
            dissect_in_stream(unit, pinfo, tree, context)
        end
        at = at + unit:len()
    end
    if at < there and is_clipped then
        tree:add(F.data, tvb(at))
    elseif at < there then
        pinfo.desegment_offset = at
        pinfo.desegment_len = size and at + size - there or DESEGMENT_ONE_MORE_SEGMENT
    end
    -- Wireshark calls once for a packet that ends in the frame, and once more for those behind it.
    if pinfo.private.stoop_shown and #context.summaries > 0 then context.summaries[1] = " | " .. context.summaries[1] end
    show_summaries(pinfo, context)
    if #context.summaries > 0 then
        pinfo.private.stoop_shown = "yes"
        pinfo.cols.info:fence()
    end
end

function stoop_tcp.dissector(tvb, pinfo, tree)
    dissect_stream(tvb, pinfo, tree)
    return tvb:len()
end

stoop_tcp:register_heuristic("tcp", function(tvb, pinfo, tree)
    if tvb:len() < HEADER_LEN then return false end
    local payload = tvb:raw(HEADER_LEN, math.min(tvb:len() - HEADER_LEN, 16))
    if not is_surely_ours(header_of(tvb, 0, true), payload, true) then return false end
    pinfo.conversation = stoop_tcp
    dissect_stream(tvb, pinfo, tree)
    return true
end)

local PREFIX_LEN = 10

local function add_question(tree, tvb, len, pinfo)
    if len < 11 then return false end
    local code = tvb(PREFIX_LEN + 10, 1):uint()
    if not questions[code] or code > 2 and len ~= 19 then return false end
    tree:add_le(E.nonce, tvb(PREFIX_LEN, 8))
    tree:add_le(E.ether_type, tvb(PREFIX_LEN + 8, 2))
    tree:add(E.question, tvb(PREFIX_LEN + 10, 1))
    local subject
    if code <= 2 then
        local range = len > 11 and tvb(PREFIX_LEN + 11, len - 11)
        subject = range and range:string(ENC_UTF_8) or ""
        if range then tree:add(E.name, range, subject) end
    else
        tree:add(E.mac, tvb(PREFIX_LEN + 11, 6))
        tree:add_le(E.port, tvb(PREFIX_LEN + 17, 2))
        subject = tostring(tvb(PREFIX_LEN + 11, 6):ether()) .. ":" .. tvb(PREFIX_LEN + 17, 2):le_uint()
    end
    pinfo.cols.protocol = "Stoop"
    pinfo.cols.info = (questions[code]:gsub("^%l", string.upper)) .. ": " .. printable(subject)
    return true
end

-- The packets of a frame, each `segment` bytes long but the last.
local function dissect_packets(tvb, pinfo, tree, stop, segment, context)
    local at = PREFIX_LEN
    while at < stop and tvb:len() - at >= HEADER_LEN do
        local h = header_of(tvb, at, false)
        local size = math.min(segment, stop - at)
        if not h.why and HEADER_LEN + h.len + h.trailer > size then h.why = "the payload is not all there" end
        dissect_packet(tvb, pinfo, tree, at, size, h, context)
        at = at + size
    end
end

function stoop_ether.dissector(tvb, pinfo, tree)
    local there, whole = tvb:len(), tvb:reported_len()
    if there < PREFIX_LEN then return 0 end
    local word, sent = tvb(4, 2):le_uint(), tvb(6, 4)
    local len, is_several = word % 0x8000, word >= 0x8000
    local stop = PREFIX_LEN + len
    if len == 0 or stop > whole then return 0 end
    local segment, packets_end = len, stop
    if is_several then
        if len < 2 or there < stop then return 0 end
        segment, packets_end = tvb(stop - 2, 2):le_uint(), stop - 2
        if segment == 0 or segment >= len - 2 then return 0 end
    end
    local is_packet = there >= PREFIX_LEN + HEADER_LEN and tvb(PREFIX_LEN, 1):uint() == 0xd7
        and not header_of(tvb, PREFIX_LEN, false).is_foreign
    local computed
    if sent:le_uint() ~= 0 and there >= stop and (stoop.prefs.checksums or not is_packet) then
        computed = crc32c(tvb:raw(0, 6) .. "\0\0" .. tvb:raw(PREFIX_LEN, len))
        if computed == 0 then computed = 0xffffffff end
    end
    -- Others may use this EtherType: a frame is ours by its packet's header, or a question by its checksum.
    if not is_packet and computed ~= sent:le_uint() then return 0 end

    local item = tree:add(stoop_ether, tvb(0, math.min(there, stop)))
    item:add_le(E.to, tvb(0, 2))
    item:add_le(E.from, tvb(2, 2))
    item:add_le(E.length, tvb(4, 2))
    item:add_le(E.several, tvb(4, 2))
    if sent:le_uint() == 0 then
        item:add_le(E.checksum, sent):append_text(" (not computed)")
    else
        add_checksum(item, E.checksum, E.checksum_status, stoop_ether.experts.checksum, sent, computed)
    end
    if is_several then item:add_le(E.segment, tvb(stop - 2, 2)) end
    if is_packet then
        local context = new_context(pinfo, false)
        local ends = { tostring(pinfo.src) .. ":" .. tvb(2, 2):le_uint(), tostring(pinfo.dst) .. ":" .. tvb(0, 2):le_uint() }
        table.sort(ends)
        context.ends = table.concat(ends, "|") .. "|"
        dissect_packets(tvb, pinfo, tree, packets_end, segment, context)
        show_summaries(pinfo, context)
    elseif not add_question(item, tvb, len, pinfo) then
        return 0
    end
    if there > stop then item:add(E.padding, tvb(stop, there - stop)) end
    return there
end

DissectorTable.get("ethertype"):add(0x88b5, stoop_ether)
DissectorTable.get("ethertype"):add(0x88b6, stoop_ether)
DissectorTable.get("udp.port"):add_for_decode_as(stoop)
DissectorTable.get("tcp.port"):add_for_decode_as(stoop_tcp)
