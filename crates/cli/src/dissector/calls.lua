-- What earlier packets have told: interfaces of bindings, calls, parts of messages. Packets come in the order of the capture the first
-- time; what is found then is kept in a record, because Wireshark asks about them again in any order.

local bindings -- by binding: { interface, procedures: number → fingerprint }
local binds    -- by ends and number: { pages: first → { interface, fingerprints, seen, attempt: { frame, time, answer } }, last }
local calls    -- by ends, binding, lane and number
local newest   -- by ends, binding and lane: the newest call number
local records  -- by frame: place and header → what was found
local streams  -- by ends: { caller, sides: sender → what its records have told }, of the latest connection with a handshake
local opened_records -- by sender and tag: { number, opened, messages }

local names    -- { by_fingerprint: fingerprint → { interface, name, signature }, by_number: interface → number → the same, only }

local function is_standard(interface)
    return interface:match("^Stoop%u") ~= nil
end

local function read_names()
    names = { by_fingerprint = {}, by_number = {} }
    local path = stoop.prefs.names
    local file = io.open(path ~= "" and path or Dir.personal_config_path("stoop.names"), "r")
    if not file then return end
    for line in file:lines() do
        local fingerprint, interface, number, signature = line:match("^(%x+)%s+(%S+)%s+(%d+)%s+(.-)%s*$")
        if fingerprint and #fingerprint == 16 then
            local name = signature:gsub("^one_way ", ""):match("^[^(]*")
            local entry = { interface = interface, name = name, signature = signature }
            names.by_fingerprint[fingerprint:lower()] = entry
            names.by_number[interface] = names.by_number[interface] or {}
            names.by_number[interface][tonumber(number)] = entry
        end
    end
    file:close()
    local own = {}
    for interface in pairs(names.by_number) do
        if not is_standard(interface) then own[#own + 1] = interface end
    end
    names.only = #own == 1 and own[1] or nil
end

local reset_secrets

function stoop.init()
    bindings, binds, calls, newest, records = {}, {}, {}, {}, {}
    streams, opened_records = {}, {}
    read_names()
    reset_secrets()
end

-- Name of a procedure as people read it, and its signature if that is known.
local function procedure_name(binding, number)
    local bound = bindings[binding]
    local interface = bound and bound.interface
    local known, presumed
    if bound then
        known = names.by_fingerprint[bound.procedures[number] or ""]
    else
        interface = stoop.prefs.interface ~= "" and stoop.prefs.interface or names.only
        known = interface and (names.by_number[interface] or {})[number]
        presumed = known and " (presumed)" or ""
    end
    if known then
        return (interface or known.interface) .. "." .. known.name .. (presumed or ""), known.signature
    end
    return (bound and interface .. "." or "procedure ") .. number
end

-- The record of a packet, and whether it is new.
local function record_of(frame, at, header)
    local of_frame = records[frame]
    if not of_frame then
        of_frame = {}
        records[frame] = of_frame
    end
    local key = at .. header
    local record = of_frame[key]
    if not record then
        record = {}
        of_frame[key] = record
        return record, true
    end
    return record, false
end

local function call_of(ends, h)
    local key = ends .. h.binding .. h.lane .. "." .. h.number
    local call = calls[key]
    if not call then
        call = { sides = {} }
        calls[key] = call
    end
    return call
end

-- Sets in the record whether this packet was sent before. `mark` tells transmissions of one packet apart, if it is not nil.
local function note_transmission(record, seen, place, mark, frame)
    local before = seen[place]
    if not before then
        seen[place] = { frame = frame, marks = mark and { [mark] = true } or nil }
        return true
    end
    if mark and before.marks and before.marks[mark] then
        record.duplicate = before.frame
    else
        record.retransmission = before.frame
        if mark and before.marks then before.marks[mark] = true end
    end
    before.frame = frame
    return false
end

-- One message on its way: its parts in order. Returns the message when it is whole.
local function put_together(side, h, payload)
    local longest = 1024 * stoop.prefs.reassemble
    if side.frame or not payload or (longest > 0 and h.length > longest) then return nil end
    if not side.chunks then
        side.chunks, side.up_to, side.waiting, side.waiting_count = {}, 0, {}, 0
    end
    local function take(at, bytes)
        if at > side.up_to or at + #bytes <= side.up_to then return false end
        local fresh = at < side.up_to and bytes:sub(side.up_to - at + 1) or bytes
        side.chunks[#side.chunks + 1] = fresh
        side.up_to = side.up_to + #fresh
        return true
    end
    if take(h.at, payload) then
        local progress = side.waiting_count > 0
        while progress do
            progress = false
            local exact = side.waiting[side.up_to]
            for at, bytes in pairs(exact and { [side.up_to] = exact } or side.waiting) do
                if at <= side.up_to then
                    progress = take(at, bytes) or progress
                    side.waiting[at] = nil
                    side.waiting_count = side.waiting_count - 1
                end
            end
            progress = progress and side.waiting_count > 0
        end
    elseif h.at > side.up_to and not side.waiting[h.at] and side.waiting_count < 2048 then
        side.waiting[h.at] = payload
        side.waiting_count = side.waiting_count + 1
    end
    if side.up_to < h.length then return nil end
    local message = table.concat(side.chunks)
    side.chunks, side.waiting = nil, nil
    return message
end

-- Calls and results: transmissions, and the parts of a message.
local function note_message(record, call, h, frame, payload)
    local side = call.sides[h.kind]
    if not side then
        side = { seen = {}, packets = 0, highest = 0, reaches = 0 }
        call.sides[h.kind] = side
    end
    record.side = side
    local is_first
    if h.at == 0 then
        local mark = h.kind == KIND.CALL and h.time ~= NO_DEADLINE and h.time or nil
        is_first = note_transmission(record, side.seen, 0, mark, frame)
    else
        is_first = note_transmission(record, side.seen, h.at, h.is_part and h.time or nil, frame)
        -- Parts may have another size when they are sent again.
        if is_first and h.is_part and h.at < side.reaches and h.time > side.highest then
            record.retransmission = side.latest
        end
        if h.is_part then side.highest = math.max(side.highest, h.time) end
    end
    side.reaches = math.max(side.reaches, h.at + h.len)
    side.latest = frame
    if h.len == h.length then return is_first end
    side.packets = side.packets + 1
    local message = put_together(side, h, payload)
    if message then
        side.frame = frame
        record.message, record.packets = message, side.packets
    end
    return is_first
end

local ANSWERS = {
    [KIND.RESULT] = true, [KIND.ACKNOWLEDGEMENT] = true, [KIND.REFUSAL] = true, [KIND.FAILURE] = true, [KIND.CHALLENGE] = true,
}
local FINAL = { [KIND.RESULT] = true, [KIND.REFUSAL] = true, [KIND.FAILURE] = true }

-- Links an answer to what it answers. The times are of the first answer only.
local function note_answer(record, asked, frame, time, at_server)
    record.to = asked.frame
    if asked.answer and asked.answer ~= frame then return end
    asked.answer = frame
    if not asked.time then return end
    record.response_time = time - asked.time
    if at_server and at_server <= record.response_time then
        record.network_time = record.response_time - at_server
    end
end

local function note_call_packet(record, ends, h, frame, time, payload)
    local call = call_of(ends, h)
    record.call = call
    local lane = ends .. h.binding .. h.lane
    if h.kind == KIND.CALL then
        local is_first = note_message(record, call, h, frame, payload)
        if h.at == 0 then
            call.procedure, call.has_metadata, call.has_pipe_out = h.procedure, h.has_metadata, h.has_pipe_out
        end
        if not call.frame and is_first then
            call.frame, call.time = frame, time
            if h.left then call.deadline = time + h.left end
        end
        record.asked = call
        newest[lane] = h.number
    elseif h.kind == KIND.RESULT then
        local is_first = note_message(record, call, h, frame, payload)
        if h.at == 0 and is_first then note_answer(record, call, frame, time, h.at_server) end
        record.to = call.frame
    elseif ANSWERS[h.kind] then
        if FINAL[h.kind] then
            note_transmission(record, call.sides, h.kind .. "." .. h.time, nil, frame)
            note_answer(record, call, frame, time)
            local is_next = newest[lane] and newest[lane] < h.number
            record.is_notice = h.kind == KIND.REFUSAL and h.time == 5 and not call.frame and (is_next or h.number == 0)
        end
        record.to = call.frame
    elseif h.kind == KIND.CANCEL then
        note_transmission(record, call.sides, h.kind, nil, frame)
        record.to = call.frame
    end
    record.is_late = FINAL[h.kind] and call.deadline and time > call.deadline
end

-- What binding and describing have in common: a question, known by its ends and number, and its answer.
local function question_of(ends, h, what)
    local key = ends .. what .. h.number
    local question = binds[key]
    if not question then
        question = { pages = {} }
        binds[key] = question
    end
    return question
end

local function note_bind(record, ends, h, frame, time, told)
    local question = question_of(ends, h, "bind")
    local page = question.pages[told.first]
    if not page then
        page = { seen = {} }
        question.pages[told.first] = page
    end
    if note_transmission(record, page.seen, told.cookie, nil, frame) then
        page.attempt = { frame = frame, time = time }
    end
    page.interface, page.fingerprints = told.interface, told.fingerprints
    question.last = page
    record.asked = page.attempt
end

local function note_bind_reply(record, ends, h, frame, time, told)
    local page = question_of(ends, h, "bind").pages[told.first]
    if not page then return end
    note_answer(record, page.attempt, frame, time)
    record.interface = page.interface
    if told.status ~= 0 then return end
    local bound = bindings[h.binding]
    if not bound then
        bound = { interface = page.interface, procedures = {} }
        bindings[h.binding] = bound
    end
    for position, number in ipairs(told.numbers) do
        bound.procedures[number] = page.fingerprints[position]
    end
end

local function note_described(record, ends, h, frame, time)
    local question = question_of(ends, h, "describe")
    if h.kind == KIND.DESCRIBE then
        note_transmission(record, question, "seen", nil, frame)
        if not question.frame then question.frame, question.time = frame, time end
        record.asked = question
    else
        note_answer(record, question, frame, time)
    end
end

-- A challenge of a bind, which has no binding yet.
local function note_challenge_of_bind(record, ends, h, frame, time)
    local page = question_of(ends, h, "bind").last
    if page then note_answer(record, page.attempt, frame, time) end
end

