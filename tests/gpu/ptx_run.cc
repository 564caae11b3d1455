// What a parsed kernel does, in the driver double.
#include <cstring>

#include "ptx.h"

namespace cuda_double::ptx {
namespace {

constexpr unsigned word = 4;  // of the records of shared memory

struct Fault {
  std::string why;
};

// Who has written a word of shared memory, and who has read it, since the last barrier.
struct Touched {
  uint64_t written_in = 0, read_in = 0;  // numbers of the times between barriers; 0: never
  unsigned writer = 0, reader = 0;
  bool readers = false;  // more than one
};

struct Thread {
  std::vector<uint64_t> registers;
  std::vector<uint8_t> known;
  size_t at = 0;
  bool ended = false;
};

class Block {
 public:
  Block(const Module& module, const Kernel& kernel, const std::vector<uint64_t>& parameters, unsigned number,
        unsigned threads, const Memory& memory)
      : module_(module),
        kernel_(kernel),
        parameters_(parameters),
        number_(number),
        memory_(memory),
        shared_(kernel.shared_bytes),
        touched_(kernel.shared_bytes / word + 1),
        threads_(threads) {
    for (Thread& thread : threads_) {
      thread.registers.resize(kernel.registers);
      thread.known.resize(kernel.registers);
    }
  }

  void run() {
    for (bool more = true; more; ++time_) {
      size_t ended = 0;
      for (unsigned i = 0; i < threads_.size(); ++i) {
        until_barrier(threads_[i], i);
        ended += threads_[i].ended ? 1 : 0;
        if (threads_[i].at != threads_[0].at && !threads_[i].ended) throw Fault{"threads at different barriers"};
      }
      if (ended != 0 && ended != threads_.size()) throw Fault{"a barrier that not all threads come to"};
      more = ended == 0;
    }
  }

 private:
  [[noreturn]] static void fault(const Instruction& one, const std::string& why) {
    throw Fault{"line " + std::to_string(one.line) + ": " + why};
  }

  uint64_t read(const Thread& thread, const Operand& from, const Instruction& one) const {
    if (from.kind == Operand::Kind::number || from.kind == Operand::Kind::shared) return from.number;
    if (from.kind == Operand::Kind::global) return module_.globals.at(from.name).address;
    if (thread.known[from.reg] == 0) fault(one, "a register without a value");
    return thread.registers[from.reg];
  }
  static void write(Thread& thread, const Instruction& one, uint64_t value) {
    thread.registers[one.to.reg] = one.bits == 32 ? value & UINT32_MAX : value;
    thread.known[one.to.reg] = 1;
  }
  static int64_t as_signed(uint64_t value, unsigned bits) {
    return bits == 32 ? static_cast<int32_t>(value) : static_cast<int64_t>(value);
  }

  std::byte* place(const Thread& thread, unsigned number, const Instruction& one, bool writes) {
    const size_t size = one.bits / 8;
    const uint64_t address = read(thread, one.a, one) + one.a.number;
    if (address % size != 0) fault(one, "an address that is not aligned");
    if (!one.shared) {
      std::byte* const found = memory_(address, size);
      if (found == nullptr) fault(one, "an access outside of memory");
      return found;
    }
    const uint64_t at = address & UINT32_MAX;
    if (at + size > shared_.size()) fault(one, "an access outside of shared memory");
    for (size_t i = at / word; i < (at + size) / word; ++i) touch(touched_[i], number, one, writes);
    return shared_.data() + at;
  }
  void touch(Touched& now, unsigned thread, const Instruction& one, bool writes) const {
    const bool others_wrote = now.written_in == time_ && now.writer != thread;
    const bool others_read = now.read_in == time_ && (now.readers || now.reader != thread);
    if (others_wrote || (writes && others_read)) fault(one, "shared memory without a barrier between two threads");
    if (writes) {
      now.written_in = time_;
      now.writer = thread;
      return;
    }
    if (now.written_in == 0) fault(one, "shared memory without a value");
    now.readers = now.read_in == time_ && (now.readers || now.reader != thread);
    now.read_in = time_;
    now.reader = thread;
  }

  static uint64_t calculated(const Instruction& one, uint64_t a, uint64_t b) {
    switch (one.op) {
      case Op::add:
        return a + b;
      case Op::sub:
        return a - b;
      case Op::mul:
        return a * b;
      case Op::bit_and:
        return a & b;
      case Op::bit_xor:
        return a ^ b;
      case Op::shl:
        return b >= one.bits ? 0 : a << b;
      case Op::shr:
        if (one.is_signed) return static_cast<uint64_t>(as_signed(a, one.bits) >> std::min<uint64_t>(b, one.bits - 1));
        return b >= one.bits ? 0 : a >> b;
      case Op::min:
        if (one.is_signed) return as_signed(a, one.bits) < as_signed(b, one.bits) ? a : b;
        return std::min(a, b);
      case Op::set:
        if (one.compare == Compare::eq) return a == b ? 1 : 0;
        if (one.compare == Compare::ne) return a != b ? 1 : 0;
        return (one.is_signed ? as_signed(a, one.bits) < as_signed(b, one.bits) : a < b) ? 1 : 0;
      default:
        return 0;
    }
  }

  void until_barrier(Thread& thread, unsigned number) {
    while (!thread.ended) {
      const Instruction& one = kernel_.code[thread.at++];
      if (++steps_ > steps_max) fault(one, "a kernel that does not end");
      if (one.predicate >= 0) {
        const Operand predicate{.kind = Operand::Kind::reg, .reg = static_cast<unsigned>(one.predicate)};
        if (read(thread, predicate, one) == 0) continue;
      }
      switch (one.op) {
        case Op::barrier:
          return;
        case Op::ret:
          thread.ended = true;
          break;
        case Op::branch:
          thread.at = one.target;
          break;
        case Op::load: {
          uint64_t value = 0;
          std::memcpy(&value, place(thread, number, one, false), one.bits / 8);
          write(thread, one, value);
          break;
        }
        case Op::store: {
          const uint64_t value = read(thread, one.b, one);
          std::memcpy(place(thread, number, one, true), &value, one.bits / 8);
          break;
        }
        case Op::param:
          write(thread, one, parameters_[one.a.number]);
          break;
        case Op::mov:
          write(thread, one,
                one.a.kind == Operand::Kind::thread  ? number
                : one.a.kind == Operand::Kind::block ? number_
                                                     : read(thread, one.a, one));
          break;
        case Op::cvt:
          write(thread, one, read(thread, one.a, one));
          break;
        case Op::neg:
          write(thread, one, uint64_t{0} - read(thread, one.a, one));
          break;
        default: {
          // 64 bits for a predicate's comparison, too: the registers of narrower ones have zeros above.
          const uint64_t value = calculated(one, read(thread, one.a, one), read(thread, one.b, one));
          write(thread, one, value);
          break;
        }
      }
    }
  }

  static constexpr uint64_t steps_max = 1ull << 22;  // of a block: some five times those of a real one
  const Module& module_;
  const Kernel& kernel_;
  const std::vector<uint64_t>& parameters_;
  unsigned number_;
  const Memory& memory_;
  std::vector<std::byte> shared_;
  std::vector<Touched> touched_;
  std::vector<Thread> threads_;
  uint64_t time_ = 1, steps_ = 0;
};

}  // namespace

bool run(const Module& module, const Kernel& kernel, const std::vector<uint64_t>& parameters, unsigned blocks,
         unsigned threads, const Memory& memory, std::string& why) {
  try {
    for (unsigned i = 0; i < blocks; ++i) Block(module, kernel, parameters, i, threads, memory).run();
    return true;
  } catch (const Fault& fault) {
    why = fault.why;
    return false;
  }
}

}  // namespace cuda_double::ptx
