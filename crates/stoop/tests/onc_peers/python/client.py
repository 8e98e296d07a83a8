"""Calls a server as Python programs do: client.py HOST. Needs PyVISA-py (Debian: python3-pyvisa-py)."""

import sys

import pyvisa
from pyvisa_py.protocols import rpc, vxi11

host = sys.argv[1]

# The whole way of a program that asks an instrument: rpcbind over TCP, then VXI-11 over TCP.
manager = pyvisa.ResourceManager("@py")
instrument = manager.open_resource(f"TCPIP::{host}::inst0::INSTR")
assert instrument.query("*IDN?") == "ACME,Stoop,1,0.1\n"
# Longer than a read of this library: it comes in several parts.
instrument.write("COUNT? 20000")
assert instrument.read() == "".join(f"{number} " for number in range(20000)) + "\n"
instrument.close()


def refused(call):
    """The error of a call that is refused."""
    try:
        call()
    except rpc.RPCError as error:
        return repr(error)
    raise AssertionError("the call was not refused")


class UdpClient(rpc.UDPClient):
    def __init__(self, version):
        self.packer, self.unpacker = vxi11.Vxi11Packer(), vxi11.Vxi11Unpacker("")
        super().__init__(host, vxi11.DEVICE_CORE_PROG, version)


# The same program over UDP, and what is not there.
client = UdpClient(1)
client.call_0()
link = client.make_call(10, (7, False, 0, "inst0"), client.packer.pack_create_link_parms, client.unpacker.unpack_create_link_resp)
assert link[0] == 0, link
link = client.make_call(10, (7, False, 0, "inst9"), client.packer.pack_create_link_parms, client.unpacker.unpack_create_link_resp)
assert link[0] == vxi11.ErrorCodes.device_not_accessible, link
assert "procedure_unavailable" in refused(lambda: client.make_call(77, None, None, None))
assert "GarbageArgs" in refused(lambda: client.make_call(10, 7, client.packer.pack_int, None))
assert "program_mismatch: (1, 1)" in refused(UdpClient(2).call_0)
