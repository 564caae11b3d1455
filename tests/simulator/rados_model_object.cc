#include "simulator/rados_model_object.h"

#include <rados/librados.h>

#include <algorithm>
#include <cerrno>

namespace verbena::simulator {
namespace {

using Kind = RadosOperation::Kind;

constexpr uint64_t page_max = 1024;           // osd_max_omap_entries_per_request
constexpr uint64_t page_bytes_max = 1 << 30;  // osd_max_omap_bytes_per_request
constexpr size_t object_max = 128 << 20;      // osd_max_object_size

// Of the stored value with the one that the caller named.
bool holds(int comparison, const std::string& stored, const std::string& named, bool is_row) {
  switch (comparison) {
    case LIBRADOS_CMPXATTR_OP_EQ:
      return stored == named;
    case LIBRADOS_CMPXATTR_OP_NE:
      return stored != named;
    // cmpxattr asks about the caller's value, omap_cmp about the stored one.
    case LIBRADOS_CMPXATTR_OP_GT:
      return is_row ? stored > named : named > stored;
    case LIBRADOS_CMPXATTR_OP_LT:
      return is_row ? stored < named : named < stored;
    default:
      return false;
  }
}

const std::string& value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  static const std::string nothing;
  const auto found = values.find(name);
  return found == values.end() ? nothing : found->second;
}

// An absent attribute or row counts as an empty one.
int compare_attribute(const RadosObject* before, const RadosOperation& operation) {
  if (before == nullptr) return -ENOENT;
  const std::string& stored = value_of(before->attributes, operation.name);
  return holds(operation.comparison, stored, operation.bytes, false) ? 1 : -ECANCELED;
}

int compare_rows(const RadosObject* before, const RadosOperation& operation) {
  static const std::map<std::string, std::string> none;
  const auto& rows = before == nullptr ? none : before->rows;
  for (const auto& [name, wanted] : operation.compared) {
    if (!holds(wanted.second, value_of(rows, name), wanted.first, true)) return -ECANCELED;
  }
  return 0;
}

// What a vector would do. Comparisons see the object as it was before.
struct Check {
  const RadosObject* before;
  RadosLimits limits;
  bool exists, changes = false;
  size_t size;

  int change(const RadosOperation& operation) {
    const bool existed = exists;
    switch (operation.kind) {
      case Kind::create:
        if (existed && operation.exclusive) return -EEXIST;
        changes = changes || !existed;
        exists = true;
        return 0;
      case Kind::write_full:
        if (operation.bytes.size() > object_max) return -EFBIG;
        size = operation.bytes.size();
        break;
      case Kind::set_attribute:
        break;
      case Kind::set_rows:
        if (limits.erasure_coded) return -EOPNOTSUPP;
        break;
      case Kind::remove_rows:
        if (limits.erasure_coded) return -EOPNOTSUPP;
        if (!existed) return -ENOENT;
        break;
      case Kind::remove:
        if (!existed) return -ENOENT;
        changes = true;
        exists = false;
        return 0;
      default:
        return -EINVAL;
    }
    changes = exists = true;
    return 0;
  }

  int run(const RadosOperation& operation) {
    switch (operation.kind) {
      case Kind::assert_exists:
        return exists ? 0 : -ENOENT;
      case Kind::assert_version:
        if (before == nullptr || before->version < operation.from) return -EOVERFLOW;
        return before->version > operation.from ? -ERANGE : 0;
      case Kind::compare_attribute:
        return compare_attribute(before, operation);
      case Kind::compare_rows:
        return exists ? compare_rows(before, operation) : -ENOENT;
      default:
        return change(operation);
    }
  }

  bool grows() const { return exists && (before == nullptr || size > before->data.size()); }
};

bool is_change(Kind kind) { return kind == Kind::create || (kind >= Kind::write_full && kind <= Kind::remove_rows); }

void apply(std::optional<RadosObject>& slot, const RadosOperation& operation) {
  if (operation.kind == Kind::remove) {
    slot.reset();
    return;
  }
  if (!is_change(operation.kind)) return;
  RadosObject& object = slot ? *slot : slot.emplace();
  if (operation.kind == Kind::write_full) object.data = operation.bytes;
  if (operation.kind == Kind::set_attribute) object.attributes[operation.name] = operation.bytes;
  for (const auto& [name, value] : operation.rows) object.rows[name] = value;
  for (const std::string& name : operation.names) object.rows.erase(name);
}

void read_rows(const RadosObject& object, const RadosOperation& operation, RadosAnswer& answer) {
  auto at = operation.prefix > operation.name ? object.rows.lower_bound(operation.prefix)
                                              : object.rows.upper_bound(operation.name);
  uint64_t bytes = 0;
  for (; at != object.rows.end() && at->first.starts_with(operation.prefix); ++at) {
    if (answer.rows.size() >= std::min(operation.length, page_max) || bytes >= page_bytes_max) {
      answer.more = true;
      return;
    }
    bytes += at->first.size() + at->second.size();
    answer.rows.insert(*at);
  }
}

int read_attribute(const RadosObject& object, const std::string& name, RadosAnswer& answer) {
  const auto found = object.attributes.find(name);
  if (found == object.attributes.end()) return -ENODATA;
  answer.bytes = found->second;
  return static_cast<int>(answer.bytes.size());
}

int read_one(const RadosObject& object, const RadosOperation& operation, RadosLimits limits, RadosAnswer& answer) {
  switch (operation.kind) {
    case Kind::assert_exists:
    case Kind::watchers:
      return 0;
    case Kind::assert_version:
      if (object.version < operation.from) return -EOVERFLOW;
      return object.version > operation.from ? -ERANGE : 0;
    case Kind::compare_attribute:
      return compare_attribute(&object, operation);
    case Kind::compare_rows:
      return compare_rows(&object, operation);
    case Kind::stat:
      answer.size = object.data.size();
      answer.modified_s = object.modified_s;
      return 0;
    case Kind::read:
      if (operation.from < object.data.size()) {
        answer.bytes = object.data.substr(operation.from, operation.length == 0 ? std::string::npos : operation.length);
      }
      return 0;
    case Kind::attribute:
      return std::min(read_attribute(object, operation.name, answer), 0);
    case Kind::attributes:
      answer.rows = object.attributes;
      return 0;
    case Kind::rows_from:
      if (!limits.erasure_coded) read_rows(object, operation, answer);
      return 0;
    case Kind::rows_named:
      for (const std::string& name : operation.names) {
        const auto found = object.rows.find(name);
        if (!limits.erasure_coded && found != object.rows.end()) answer.rows.insert(*found);
      }
      return 0;
    default:
      return -EINVAL;
  }
}

}  // namespace

RadosOutcome write_object(std::optional<RadosObject>& slot, const RadosOperations& operations, RadosLimits limits,
                          uint64_t version, int64_t now_s) {
  RadosOutcome outcome;
  Check check{slot ? &*slot : nullptr, limits, slot.has_value(), false, slot ? slot->data.size() : 0};
  for (const RadosOperation& operation : operations) {
    const int code = check.run(operation);
    outcome.answers.push_back({.code = code, .bytes = {}, .rows = {}});
    if (code < 0) {
      outcome.code = code;
      return outcome;
    }
  }
  if (limits.full && check.grows()) {
    outcome.code = -ENOSPC;
    return outcome;
  }
  outcome.version = slot ? slot->version : 0;
  if (!check.changes) return outcome;
  for (const RadosOperation& operation : operations) apply(slot, operation);
  outcome.version = version;
  if (slot) slot->version = version;
  if (slot) slot->modified_s = now_s;
  return outcome;
}

RadosOutcome read_object(const std::optional<RadosObject>& slot, const RadosOperations& operations,
                         RadosLimits limits) {
  RadosOutcome outcome;
  if (!slot) {
    outcome.code = -ENOENT;
    return outcome;
  }
  outcome.version = slot->version;
  for (const RadosOperation& operation : operations) {
    RadosAnswer& answer = outcome.answers.emplace_back();
    answer.code = read_one(*slot, operation, limits, answer);
    if (answer.code < 0) {
      outcome.code = answer.code;
      return outcome;
    }
    // A comparison that holds leaves its 1, which no read after it takes away.
    outcome.code = std::max(outcome.code, answer.code);
  }
  return outcome;
}

}  // namespace verbena::simulator
