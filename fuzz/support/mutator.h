// What the structure-aware mutators share. A mutator takes an input apart, changes one thing and puts it together
// again, so that lengths, counts and nesting stay right and the code behind the first check is reached. Three inputs in
// ten are left to libFuzzer's own mutations of bytes, which break them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace verbena::fuzz {

class Chance {
 public:
  explicit Chance(unsigned seed) : state_(seed) {}
  // 0 ... below - 1
  size_t below(size_t below) { return below == 0 ? 0 : state_() % below; }
  bool percent(unsigned of_100) { return below(100) < of_100; }
  template <class T>
  const T& one(std::span<const T> from) {
    return from[below(from.size())];
  }

 private:
  std::minstd_rand state_;
};

inline std::string mutated_bytes(std::string_view text, size_t size_max) {
  std::string out(text);
  out.resize(std::max(size_max, text.size()));
  out.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(out.data()), text.size(), size_max));
  return out;
}

inline size_t put_back(std::string_view made, uint8_t* data, size_t size_max) {
  return made.copy(reinterpret_cast<char*>(data), size_max);
}

// Numbers at which lengths, counts and times break.
inline uint64_t odd_number(Chance& chance) {
  constexpr uint64_t numbers[] = {0,
                                  1,
                                  2,
                                  7,
                                  8,
                                  255,
                                  256,
                                  1000,
                                  1001,
                                  4095,
                                  4096,
                                  65'535,
                                  65'536,
                                  0x7fffffff,
                                  1u << 31,
                                  0xffffffff,
                                  1ull << 32,
                                  1ull << 40,
                                  (1ull << 63) - 1,
                                  1ull << 63,
                                  ~0ull - 1,
                                  ~0ull};
  return chance.one(std::span<const uint64_t>(numbers));
}
template <class Number>
void change_number(Number& value, Chance& chance) {
  switch (chance.below(4)) {
    case 0:
      value = static_cast<Number>(static_cast<uint64_t>(value) + 1);
      break;
    case 1:
      value = static_cast<Number>(static_cast<uint64_t>(value) - 1);
      break;
    case 2:
      value = static_cast<Number>(static_cast<uint64_t>(value) ^ (1ull << chance.below(8 * sizeof(Number))));
      break;
    default:
      value = static_cast<Number>(odd_number(chance));
  }
}

}  // namespace verbena::fuzz
