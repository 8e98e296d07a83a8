-- A dissector for Wireshark and tshark: the packets of Stoop over UDP, TCP and raw Ethernet.
--
-- Printed by `stoop dissector`. Put it into the folder of personal Lua plugins (Help, About Wireshark, Folders), or run
-- `tshark -X lua_script:stoop.lua`. It works with Lua 5.2 to 5.4.
--
-- A file of names lets it show procedures by their names. Each line names one procedure:
--
--     c25a780961a0a498 Test 0 null()
--
-- its fingerprint, its interface, its number at the server, and its signature. Lines that begin with # are comments.

local stoop = Proto("stoop", "Stoop")
local stoop_ether = Proto("stoop_ether", "Stoop over Ethernet")
local stoop_tcp = Proto("stoop_tcp", "Stoop over TCP")

stoop.prefs.names = Pref.string("File of names", "", "Names of procedures; empty: stoop.names in the personal configuration folder")
stoop.prefs.interface = Pref.string("Presumed interface", "",
    "Interface of bindings whose bind was not captured; empty: the only one in the file of names, apart from Stoop's own")
stoop.prefs.keys = Pref.string("Key log", "", "The file of Security::key_log, whose secrets open sealed packets and connections")
stoop.prefs.reassemble = Pref.uint("Longest message put together (KiB)", 4096, "Longer messages are shown part by part; 0: all are")
stoop.prefs.checksums = Pref.bool("Verify checksums", true, "Compute the CRC-32C of packets and frames that have one")

local HEADER_LEN, PACKET_DATA, STREAM_FRAGMENT = 32, 1440, 65536
local CHECKSUM_LEN, SEALED_NUMBER_LEN, TAG_LEN = 4, 8, 16
local RECORD_HEADER_LEN, RECORD_DATA_MAX = 4, 16384
local NO_DEADLINE = 4294967295

local KIND = {
    BIND = 1, BIND_REPLY = 2, CALL = 3, RESULT = 4, ACKNOWLEDGEMENT = 5, PROBE = 6, REFUSAL = 7, FAILURE = 8, CHALLENGE = 9,
    PROOF = 10, UNBIND = 11, DESCRIBE = 12, DESCRIPTION = 13, RECEIPT = 14, CANCEL = 15, ATTACH = 16, HANDSHAKE = 17,
    VERSIONS = 18, PROBES = 19, ACKNOWLEDGEMENTS = 20, DATA = 21,
}
local kinds = {
    "Bind", "Bind reply", "Call", "Result", "Acknowledgement", "Probe", "Refusal", "Failure", "Challenge", "Proof", "Unbind",
    "Describe", "Description", "Receipt", "Cancel", "Attach", "Handshake (reserved)", "Versions", "Probes", "Acknowledgements",
    "Data",
}
local refusals = {
    "unknown binding", "unknown procedure", "arguments cannot be decoded", "overloaded", "shutting down",
    "its time was over before a worker was free", "message too large", "too many lanes", "result would be too large",
    "cancelled before it began", "only parts of the call arrived", "denied",
    "its caller offers no object",
}
local failures = { "the procedure panicked", "result too large", "result gone", "finished too late", "abandoned",
    [7] = "inexpressible" }
local unbinds = { "disorder", "shutting down", "no resources", "crowded", "owing answers on all lanes" }
local statuses = {
    [0] = "bound", "no such interface", "full", "shutting down", "unknown flags", "mismatch", "not allowed",
    "sealed bindings only", "denied",
}
local extensions = { [0] = "padding", "server's clock", "bytes of data in a packet", "lanes", "initial credit",
    "longest block of metadata" }
local questions = { "question for a name", "answer to a name", "question for an address", "answer to an address" }
local checks = { [0] = "wrong", "right", "not verified", "not captured" }
local ONLY_CPU_SEVERAL = { [65535] = "several" }

local F = stoop.fields
F.magic = ProtoField.uint8("stoop.magic", "Magic", base.HEX)
F.version = ProtoField.uint8("stoop.version", "Version")
F.kind = ProtoField.uint8("stoop.kind", "Kind", base.DEC, kinds)
F.flags = ProtoField.uint8("stoop.flags", "Flags", base.HEX)
F.flag_sized = ProtoField.bool("stoop.flags.sized", "Sized", 8, nil, 0x01)
F.flag_key_phase = ProtoField.bool("stoop.flags.key_phase", "Key phase", 8, nil, 0x04)
F.flag_bundle = ProtoField.bool("stoop.flags.bundle", "Bundle", 8, nil, 0x08)
F.flag_free = ProtoField.bool("stoop.flags.unknown", "Unknown", 8, nil, 0x02)
F.flag_credit = ProtoField.bool("stoop.flags.credit", "Credit", 8, nil, 0x10)
F.flag_pipe_in = ProtoField.bool("stoop.flags.pipe_in", "Pipe in", 8, nil, 0x20)
F.flag_pipe_out = ProtoField.bool("stoop.flags.pipe_out", "Pipe out", 8, nil, 0x40)
F.lane = ProtoField.uint16("stoop.lane", "Lane")
F.procedure = ProtoField.uint16("stoop.procedure", "Procedure", base.DEC, nil, 0x7fff)
F.has_metadata = ProtoField.bool("stoop.has_metadata", "Metadata", 16, nil, 0x8000)
F.procedure_name = ProtoField.string("stoop.procedure_name", "Procedure")
F.signature = ProtoField.string("stoop.signature", "Signature")
F.apart = ProtoField.uint16("stoop.bundle.apart", "Bytes from one packet to the next")
F.part_length = ProtoField.uint32("stoop.part_length", "Bytes of the message in this packet")
F.up_time = ProtoField.uint16("stoop.up_time", "Seconds for which the server is up")
F.retry_after = ProtoField.uint16("stoop.retry_after", "Milliseconds until it can take the call")
F.acknowledged = ProtoField.uint16("stoop.acknowledged", "Calls that are acknowledged")
F.credit = ProtoField.uint16("stoop.credit", "Credit from now on")
F.binding = ProtoField.uint64("stoop.binding", "Binding", base.HEX)
F.sealed = ProtoField.bool("stoop.sealed", "Sealed")
F.number = ProtoField.uint32("stoop.number", "Call number")
F.message_length = ProtoField.uint32("stoop.message_length", "Message length")
F.offset = ProtoField.uint32("stoop.offset", "Offset of this part")
F.cookie = ProtoField.uint64("stoop.cookie", "Cookie", base.HEX)
F.incarnation = ProtoField.uint64("stoop.incarnation", "Incarnation", base.HEX)
F.versions = ProtoField.uint8("stoop.spoken", "Version that is spoken")
F.time = ProtoField.uint32("stoop.time", "Time word", base.HEX)
F.left = ProtoField.relative_time("stoop.time_left", "Left to the deadline")
F.server_time = ProtoField.relative_time("stoop.server_time", "Time at the server")
F.queued = ProtoField.bool("stoop.mostly_queued", "Waited for a worker for more than half of it")
F.refusal = ProtoField.uint32("stoop.refusal", "Refusal", base.DEC, refusals)
F.failure = ProtoField.uint32("stoop.failure", "Failure", base.DEC, failures)
F.unbind = ProtoField.uint32("stoop.unbind", "Reason", base.DEC, unbinds)
F.transmission = ProtoField.uint32("stoop.transmission", "Number of the transmission")
F.explanation = ProtoField.string("stoop.explanation", "Explanation")
-- Bind, bind reply, describe, description.
F.nonce = ProtoField.uint64("stoop.nonce", "Nonce", base.HEX)
F.interface = ProtoField.string("stoop.interface", "Interface")
F.required = ProtoField.uint32("stoop.bind.required", "Required flags", base.HEX)
F.wanted = ProtoField.uint32("stoop.bind.wanted", "Wanted flags", base.HEX)
F.max_result = ProtoField.uint32("stoop.bind.max_result", "Bytes of the longest result")
F.result_window = ProtoField.uint32("stoop.bind.window", "Bytes of a result before a receipt")
F.boot_id = ProtoField.bytes("stoop.boot_id", "Boot id")
F.cpus = ProtoField.uint16("stoop.processors", "Processors")
F.only_cpu = ProtoField.uint16("stoop.only_processor", "The only processor", base.DEC, ONLY_CPU_SEVERAL)
F.first = ProtoField.uint16("stoop.first", "First procedure")
F.count = ProtoField.uint16("stoop.count", "Procedures")
F.fingerprint = ProtoField.uint64("stoop.fingerprint", "Fingerprint", base.HEX)
F.extension = ProtoField.uint16("stoop.extension", "Extension", base.DEC, extensions)
F.extension_length = ProtoField.uint16("stoop.extension.length", "Length")
F.extension_value = ProtoField.bytes("stoop.extension.value", "Value")
F.clock = ProtoField.uint64("stoop.server_clock", "Server's clock, ns")
F.up = ProtoField.uint64("stoop.server_up", "Receives since, ns")
F.packet_data = ProtoField.uint32("stoop.packet_data", "Bytes of data in a packet")
F.lanes = ProtoField.uint32("stoop.lanes", "Lanes")
F.initial_credit = ProtoField.uint32("stoop.initial_credit", "Initial credit")
F.metadata_max = ProtoField.uint32("stoop.metadata_max", "Bytes of the longest block of metadata")
F.status = ProtoField.uint8("stoop.status", "Status", base.DEC, statuses)
F.chosen = ProtoField.uint32("stoop.bind.chosen", "Chosen flags", base.HEX)
F.flag_checksums = ProtoField.bool("stoop.bind.checksums", "Checksums", 32, nil, 0x1)
F.flag_unchecked = ProtoField.bool("stoop.bind.unchecked_frames", "Frames without checksums", 32, nil, 0x2)
F.silence = ProtoField.uint32("stoop.bind.silence", "Silence limit, ms")
F.max_call = ProtoField.uint32("stoop.bind.max_call", "Bytes of the longest call")
F.call_window = ProtoField.uint32("stoop.bind.call_window", "Bytes of a call before a receipt")
F.text = ProtoField.string("stoop.text", "Text")
F.procedure_number = ProtoField.uint16("stoop.procedure_number", "Server's number")
F.described = ProtoField.string("stoop.describe.procedure", "Procedure")
F.description = ProtoField.string("stoop.description", "Signature")
-- Receipts, probes.
F.receipt = ProtoField.uint32("stoop.receipt", "Number of the receipt")
F.latest = ProtoField.uint32("stoop.receipt.latest", "Highest transmission that has arrived")
F.delay = ProtoField.uint32("stoop.receipt.delay", "ns since then")
F.limit = ProtoField.uint32("stoop.receipt.limit", "May send the bytes before")
F.up_to = ProtoField.uint32("stoop.receipt.up_to", "Here are all bytes before")
F.range_begin = ProtoField.uint32("stoop.receipt.range.begin", "Range from")
F.range_end = ProtoField.uint32("stoop.receipt.range.end", "Range before")
F.listed_lane = ProtoField.uint16("stoop.listed.lane", "Lane")
F.listed_number = ProtoField.uint32("stoop.listed.number", "Call number")
-- Pipes.
F.data_length = ProtoField.uint16("stoop.pipe.length", "Bytes of the pipe in this packet")
F.pipe_end = ProtoField.bool("stoop.pipe.end", "The pipe ends behind them", 8, nil, 0x04)
F.pipe_abort = ProtoField.bool("stoop.pipe.abort", "The pipe is aborted", 8, nil, 0x08)
F.pipe_followed = ProtoField.bool("stoop.pipe.followed", "A receipt follows the bytes", 8, nil, 0x10)
F.pipe_waited = ProtoField.bool("stoop.pipe.waited", "Waited for a higher limit", 8, nil, 0x20)
F.pipe_offset = ProtoField.uint64("stoop.pipe.offset", "Offset in the pipe")
F.pipe_receipt = ProtoField.bool("stoop.receipt.pipe", "For data of a pipe", 8, nil, 0x80)
F.pipe_stop = ProtoField.bool("stoop.receipt.stop", "The receiver takes no more", 8, nil, 0x04)
F.pipe_up_to = ProtoField.uint64("stoop.receipt.pipe_up_to", "Here are all bytes of the pipe before")
F.pipe_length = ProtoField.uint64("stoop.pipe.total", "Bytes of the pipe to the caller")
-- Payloads.
F.metadata_length = ProtoField.uint16("stoop.metadata.length", "Bytes of metadata")
F.metadata = ProtoField.bytes("stoop.metadata", "Metadata")
F.arguments = ProtoField.bytes("stoop.arguments", "Arguments")
F.results = ProtoField.bytes("stoop.results", "Results")
F.part = ProtoField.bytes("stoop.part", "Part of the message")
F.data = ProtoField.bytes("stoop.data", "Data")
F.sealed_data = ProtoField.bytes("stoop.sealed_data", "Sealed data")
F.stream_data = ProtoField.bytes("stoop.stream_data", "Bytes of the stream")
F.opened = ProtoField.bool("stoop.opened", "Opened with the key log")
F.sealed_number = ProtoField.uint64("stoop.sealed_number", "Number of the sealed packet or record")
F.record_length = ProtoField.uint32("stoop.record.length", "Bytes of the stream in this record", base.DEC, nil, 0x7fffffff)
F.record_phase = ProtoField.bool("stoop.record.key_phase", "Key phase", 32, nil, 0x80000000)
F.tag = ProtoField.bytes("stoop.tag", "Tag")
F.checksum = ProtoField.uint32("stoop.checksum", "Checksum", base.HEX)
F.checksum_status = ProtoField.uint8("stoop.checksum.status", "Checksum is", base.DEC, checks)
F.padding = ProtoField.bytes("stoop.padding", "Padding")
-- From several packets.
F.response_in = ProtoField.framenum("stoop.response_in", "Answered in", base.NONE, frametype.RESPONSE)
F.response_to = ProtoField.framenum("stoop.response_to", "Answers", base.NONE, frametype.REQUEST)
F.response_time = ProtoField.relative_time("stoop.response_time", "Response time")
F.network_time = ProtoField.relative_time("stoop.network_time", "Of it outside of the server")
F.retransmission = ProtoField.framenum("stoop.retransmission", "Sent before in", base.NONE, frametype.RETRANS_PREV)
F.duplicate = ProtoField.framenum("stoop.duplicate", "The same packet as in", base.NONE, frametype.RETRANS_PREV)
F.reassembled_in = ProtoField.framenum("stoop.reassembled_in", "Message is whole in")
F.packets = ProtoField.uint32("stoop.packets", "Packets of the message")

local X = stoop.experts
X.malformed = ProtoExpert.new("stoop.malformed", "Malformed packet", expert.group.MALFORMED, expert.severity.ERROR)
X.checksum = ProtoExpert.new("stoop.bad_checksum", "Wrong checksum", expert.group.CHECKSUM, expert.severity.ERROR)
X.retransmission = ProtoExpert.new("stoop.sent_again", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE)
X.duplicate = ProtoExpert.new("stoop.repeated", "Packet repeated by the network or the capture", expert.group.SEQUENCE,
    expert.severity.NOTE)
X.refused = ProtoExpert.new("stoop.refused", "Call refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
X.failed = ProtoExpert.new("stoop.failed", "Call failed", expert.group.RESPONSE_CODE, expert.severity.WARN)
X.not_bound = ProtoExpert.new("stoop.not_bound", "Not bound", expert.group.RESPONSE_CODE, expert.severity.WARN)
X.late = ProtoExpert.new("stoop.late", "After the call's deadline", expert.group.SEQUENCE, expert.severity.WARN)
X.cancelled = ProtoExpert.new("stoop.cancelled", "Call cancelled", expert.group.REQUEST_CODE, expert.severity.CHAT)
X.notice = ProtoExpert.new("stoop.notice", "The server shuts down", expert.group.SEQUENCE, expert.severity.NOTE)
X.version = ProtoExpert.new("stoop.other_version", "Another version of the protocol", expert.group.PROTOCOL, expert.severity.WARN)
X.clipped = ProtoExpert.new("stoop.clipped", "Not all of the packet was captured", expert.group.UNDECODED, expert.severity.NOTE)

local E = stoop_ether.fields
E.to = ProtoField.uint16("stoop_ether.to", "Port of the receiver")
E.from = ProtoField.uint16("stoop_ether.from", "Port of the sender")
E.length = ProtoField.uint16("stoop_ether.length", "Length", base.DEC, nil, 0x7fff)
E.several = ProtoField.bool("stoop_ether.several", "Several packets", 16, nil, 0x8000)
E.checksum = ProtoField.uint32("stoop_ether.checksum", "CRC-32C", base.HEX)
E.checksum_status = ProtoField.uint8("stoop_ether.checksum.status", "CRC-32C is", base.DEC, checks)
E.segment = ProtoField.uint16("stoop_ether.segment", "Bytes of each packet")
E.nonce = ProtoField.uint64("stoop_ether.nonce", "Nonce", base.HEX)
E.ether_type = ProtoField.uint16("stoop_ether.ether_type", "EtherType of the server's packets", base.HEX)
E.question = ProtoField.uint8("stoop_ether.question", "Question or answer", base.DEC, questions)
E.name = ProtoField.string("stoop_ether.name", "Name")
E.mac = ProtoField.ether("stoop_ether.mac", "Hardware address")
E.port = ProtoField.uint16("stoop_ether.port", "Port")
E.padding = ProtoField.bytes("stoop_ether.padding", "Padding")
stoop_ether.experts.checksum = ProtoExpert.new("stoop_ether.bad_checksum", "Wrong checksum", expert.group.CHECKSUM,
    expert.severity.ERROR)

