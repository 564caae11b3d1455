// A Source of a text in memory.
#pragma once

#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "memory/stream.h"

namespace verbena::memory {

// The text must outlive it.
class TextSource final : public Source {
 public:
  explicit TextSource(std::string_view text) : TextSource(text, text.size()) {}
  // Declares a size other than the text's, or none.
  TextSource(std::string_view text, std::optional<uint64_t> declared) : text_(text), declared_(declared) {}
  std::optional<uint64_t> size() const override { return declared_; }
  Task<Result<size_t>> read(MutableBytes into) override {
    const size_t n = text_.copy(reinterpret_cast<char*>(into.data()), into.size(), taken_);
    taken_ += n;
    co_return n;
  }
  size_t taken() const { return taken_; }  // bytes

 private:
  std::string_view text_;
  std::optional<uint64_t> declared_;
  size_t taken_ = 0;
};

}  // namespace verbena::memory
