// The Test interface for Thrift.
namespace rs test

service Test {
  void null(),
  void put(1: required binary bytes),
  binary get(1: required i32 length),
}
