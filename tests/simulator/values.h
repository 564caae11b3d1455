// What clients put: a value has a number, bytes of its own and an entity tag that names it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::simulator {

class Values {
 public:
  // A new one; from 1. Of one part: its tag is that of an upload with this part.
  uint32_t add(size_t size, bool of_one_part = false);
  struct Part {
    int number;
    uint32_t value;
  };
  // What an upload of these parts makes, the same value each time. `is_new`: it is the first time.
  uint32_t join(const std::vector<Part>& parts, bool& is_new);
  // Whether the object that has its bytes lacks a part of that number: it is of an upload, or a copy of one.
  bool may_lack(uint32_t value, int number) const;
  const std::vector<Part>& parts(uint32_t value) const { return parts_[value]; }  // empty: of no upload
  size_t size(uint32_t value) const { return bytes_[value].size(); }
  const std::string& bytes(uint32_t value) const { return bytes_[value]; }  // the first of them are its number
  const std::string& etag(uint32_t value) const { return etags_[value]; }
  // As a part of an upload, and of a copy, which is no upload.
  const std::string& plain_etag(uint32_t value) const { return plain_etags_[value]; }
  bool has_one_etag(uint32_t value) const { return etags_[value] == plain_etags_[value]; }
  uint32_t named(const std::string& etag) const;  // 0: none
  // Whether the tag names a value that has these bytes; which.
  bool recognize(const std::string& etag, std::string_view bytes, uint32_t& value) const;
  // The values that follow each other in these bytes; false: they are not whole values.
  bool split(const std::string& bytes, std::vector<uint32_t>& into) const;

 private:
  std::deque<std::string> bytes_{""};
  std::vector<std::string> etags_{""}, plain_etags_{""};
  std::deque<std::vector<Part>> parts_{{}};
  std::map<std::string, uint32_t> names_;
};

}  // namespace verbena::simulator
