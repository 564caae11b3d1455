// An object of the model of RADOS, and the operations on one: what an OSD does with a vector of them at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace verbena::simulator {

struct RadosObject {
  std::string data;
  std::map<std::string, std::string> attributes, rows;  // std::string compares its bytes as unsigned, as RADOS does
  uint64_t version = 0;
  int64_t modified_s = 0;
};

// The part of an answer that belongs to one operation of a vector.
struct RadosAnswer {
  int code = 0;
  std::string bytes;
  std::map<std::string, std::string> rows;
  bool more = false;
  uint64_t size = 0;
  int64_t modified_s = 0;
};

struct RadosOperation {
  enum class Kind : uint8_t {
    create,
    assert_exists,
    assert_version,
    compare_attribute,
    compare_rows,
    write_full,
    remove,
    set_attribute,
    set_rows,
    remove_rows,
    // Reads.
    stat,
    read,
    attribute,
    attributes,
    rows_from,
    rows_named,
    watchers,
  };
  using Compared = std::map<std::string, std::pair<std::string, int>>;

  Kind kind;
  bool exclusive = false;             // create
  int comparison = 0;                 // compare_attribute: LIBRADOS_CMPXATTR_OP_*
  uint64_t from = 0, length = 0;      // read; length: of rows_from, too; from: of assert_version
  std::string name, bytes, prefix{};  // name: rows_from begins after it
  std::map<std::string, std::string> rows{};
  std::set<std::string> names{};
  Compared compared{};
  // Into the caller's own variables. On a thread of the client that has waited until then.
  std::function<void(RadosAnswer&)> deliver{};
};
using RadosOperations = std::vector<RadosOperation>;

struct RadosOutcome {
  int code = 0;
  uint64_t version = 0;
  std::vector<RadosAnswer> answers;  // of the operations up to the one that failed
};

// What a pool allows now.
struct RadosLimits {
  bool erasure_coded = false;  // no rows; reads of them give none
  bool full = false;           // nothing that makes an object or a byte more
};

// All of them or, where the code is negative, none. `version`: that the object gets if it changes, which that of the
// outcome then is. `slot`: where the object lies, if it exists.
RadosOutcome write_object(std::optional<RadosObject>& slot, const RadosOperations& operations, RadosLimits limits,
                          uint64_t version, int64_t now_s);
RadosOutcome read_object(const std::optional<RadosObject>& slot, const RadosOperations& operations, RadosLimits limits);

}  // namespace verbena::simulator
