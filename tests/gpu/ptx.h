// An interpreter of the part of PTX that Verbena's own kernels use, for the driver double. It is no compiler and knows
// nothing of a GPU's speed or order of memory; it is strict instead: a text with anything that it does not know, with
// operands of another width, or with a register that is not declared, is refused, and these end a launch: an access
// that is not aligned, outside of memory, or read by one thread and written by another without a barrier between them;
// a barrier that not all threads of a block come to; a read of a register or of shared memory that was not written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cuda_double::ptx {

struct Operand {
  enum class Kind : uint8_t { none, reg, number, shared, global, thread, block } kind = Kind::none;
  unsigned reg = 0;     // its place in a thread's registers
  uint64_t number = 0;  // or the offset of an address
  std::string name = {};
};

enum class Op : uint8_t {
  load,
  store,
  param,
  mov,
  add,
  sub,
  mul,
  bit_and,
  bit_xor,
  shl,
  shr,
  min,
  neg,
  cvt,
  set,
  branch,
  barrier,
  ret
};
enum class Compare : uint8_t { eq, ne, lt };

struct Instruction {
  Op op = Op::ret;
  unsigned bits = 0;  // of the operation
  bool is_signed = false, shared = false;
  Compare compare = Compare::eq;
  int predicate = -1;  // a register; -1: always
  Operand to = {}, a = {}, b = {};
  unsigned from_bits = 0;  // of a conversion
  size_t target = 0;       // of a branch
  unsigned line = 0;
};

struct Global {
  size_t size = 0, alignment = 1;
  std::vector<std::byte> initial = {};  // empty: zeros
  uint64_t address = 0;                 // given by who loads the module
};

struct Kernel {
  std::vector<std::string> parameters = {};  // u64 each
  unsigned registers = 0;
  size_t shared_bytes = 0;
  std::vector<Instruction> code = {};
};

struct Module {
  std::map<std::string, Global> globals = {};
  std::map<std::string, Kernel> kernels = {};
};

// False, and why: the text is not what this knows.
bool parse(const std::string& text, Module& module, std::string& why);

// Memory of the device: the bytes of [address, address + size), or null. Only for the time of a launch.
using Memory = std::function<std::byte*(uint64_t address, size_t size)>;

// Runs all blocks, one after the other. False, and why: a fault, which a device would report later or not at all.
bool run(const Module& module, const Kernel& kernel, const std::vector<uint64_t>& parameters, unsigned blocks,
         unsigned threads, const Memory& memory, std::string& why);

}  // namespace cuda_double::ptx
