# The Test interface for Cap'n Proto.
@0x8f1c5b0d5f6a7e21;

interface Test {
  null @0 ();
  put @1 (bytes :Data);
  get @2 (length :UInt32) -> (bytes :Data);
}
