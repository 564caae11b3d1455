// What clients put: a value has a number, bytes of its own and an entity tag that names it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace verbena::simulator {

class Values {
 public:
  // A new one; from 1. Of one part: its tag is that of an upload with this part.
  uint32_t add(size_t size, bool of_one_part = false);
  size_t size(uint32_t value) const { return bytes_[value].size(); }
  const std::string& bytes(uint32_t value) const { return bytes_[value]; }  // the first of them are its number
  const std::string& etag(uint32_t value) const { return etags_[value]; }
  // As a part of an upload, and of a copy, which is no upload.
  const std::string& plain_etag(uint32_t value) const { return plain_etags_[value]; }
  bool has_one_etag(uint32_t value) const { return etags_[value] == plain_etags_[value]; }
  uint32_t named(const std::string& etag) const;  // 0: none
  // The values that follow each other in these bytes; false: they are not whole values.
  bool split(const std::string& bytes, std::vector<uint32_t>& into) const;

 private:
  std::deque<std::string> bytes_{""};
  std::vector<std::string> etags_{""}, plain_etags_{""};
  std::map<std::string, uint32_t> names_;
};

}  // namespace verbena::simulator
