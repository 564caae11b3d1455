// Random histories against a std::map, with reopened stores and power losses.
#include <rapidcheck.h>

#include <map>
#include <tuple>

#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

using Model = std::map<std::string, std::string>;

std::string random_key() {
  static const std::vector<std::string> names = {"a", "a/", "a/b", "a/b/c", "b", std::string("\0", 1), "\xff", "é"};
  return *rc::gen::elementOf(names);
}

std::string random_value() {
  static const std::vector<size_t> sizes = {0, 1, 4096, 16 * KiB, 16 * KiB + 1, 65'536, 65'537, 150'000};
  return pattern(*rc::gen::elementOf(sizes), *rc::gen::inRange<uint64_t>(0, 1000));
}

void expect_list(Rig& t, const Model& model) {
  std::string prefix = *rc::gen::elementOf(std::vector<std::string>{"", "a", "a/", "b", "zz"});
  std::string delimiter = *rc::gen::elementOf(std::vector<std::string>{"", "/", "b/"});
  std::vector<std::string> wanted, got;
  for (const auto& [key, value] : model) {
    if (!key.starts_with(prefix)) continue;
    size_t at = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    std::string item = at == std::string::npos ? key : key.substr(0, at + delimiter.size()) + " (prefix)";
    if (wanted.empty() || wanted.back() != item) wanted.push_back(item);
  }
  ListRequest request{.prefix = prefix, .delimiter = delimiter, .after = "", .max_keys = *rc::gen::inRange(1, 5)};
  for (int i = 0; i < 20; ++i) {
    auto page = t.list("b", request);
    RC_ASSERT(page.has_value());
    for (const auto& entry : page->entries) {
      got.push_back(entry.key);
      RC_ASSERT(entry.info.size == model.at(entry.key).size());
    }
    for (const auto& common : page->common_prefixes) got.push_back(common + " (prefix)");
    if (!page->truncated) break;
    request.after = page->next_after;
  }
  std::sort(wanted.begin(), wanted.end());
  std::sort(got.begin(), got.end());
  RC_ASSERT(got == wanted);
}

// Engines that keep usage update it with each change.
void expect_counted(Rig& t) {
  const auto kept = t.usage("b");
  if (!kept && kept.error() == Errc::not_implemented) return;
  RC_ASSERT(kept.has_value());
  RC_ASSERT(*kept == t.usage_by_listing("b").value());
}

void expect_same(Rig& t, const Model& model) {
  expect_counted(t);
  for (const auto& [key, value] : model) {
    auto got = t.get("b", key);
    RC_ASSERT(got.has_value());
    RC_ASSERT(*got == value);
  }
  RC_ASSERT(t.list("b")->entries.size() == model.size());
}

void multipart(Rig& t, Model& model) {
  std::string key = random_key(), whole;
  auto upload = t.start_upload("b", key);
  RC_ASSERT(upload.has_value());
  std::vector<PartInfo> parts;
  int count = *rc::gen::inRange(1, 4);
  for (int n = 1; n <= count; ++n) {
    std::string value = random_value();
    auto part = t.put_part(*upload, n * 3, value);
    RC_ASSERT(part.has_value());
    if (*rc::gen::inRange(0, 4) == 0) continue;  // uploaded, not named
    parts.push_back(*part);
    whole += value;
  }
  if (parts.empty() || *rc::gen::inRange(0, 4) == 0) {
    RC_ASSERT(t.run(t.engine().abort_upload("b", key, upload->upload_id)).has_value());
    return;
  }
  RC_ASSERT(t.complete(*upload, parts).has_value());
  model[key] = whole;
}

void step(Rig& t, Durability durability, Model& model) {
  switch (*rc::gen::inRange(0, 13)) {
    case 0:
      return t.reopen();
    case 1:
      if (durability == Durability::memory) return t.reopen();
      return t.crash(*rc::gen::arbitrary<uint64_t>());
    case 2:
    case 3: {
      std::string key = random_key();
      RC_ASSERT(t.remove("b", key).has_value());
      model.erase(key);
      return;
    }
    case 4:
      return multipart(t, model);
    case 5:
      return expect_list(t, model);
    case 6: {
      std::string key = random_key(), value = random_value();
      auto done = t.put("b", key, value, {.conditions = {{}, "*"}, .size_hint = {}, .etag = {}});
      RC_ASSERT(done.has_value() == !model.contains(key));
      if (done) model[key] = value;
      return;
    }
    case 7: {
      std::string key = random_key();
      auto got = t.get("b", key);
      RC_ASSERT(got.has_value() == model.contains(key));
      if (got) RC_ASSERT(*got == model.at(key));
      return;
    }
    default: {
      std::string key = random_key(), value = random_value();
      size_t chunk = *rc::gen::elementOf(std::vector<size_t>{5000, 65'536, 1 * MiB});
      RC_ASSERT(
          t.put("b", key, value, {.conditions = {}, .chunk_size = chunk, .size_hint = {}, .etag = {}}).has_value());
      model[key] = value;
    }
  }
}

class Histories : public ::testing::TestWithParam<EngineUnderTest> {};

void expect_a_map(const EngineUnderTest& engine, Durability durability) {
  bool ok = rc::check("any history reads like a map", [&engine, durability] {
    const auto rig = engine.make();
    Rig& t = *rig;
    t.vary(*rc::gen::inRange<uint64_t>(0, 9));
    t.open();
    t.make_bucket("b", durability);
    Model model;
    int steps = *rc::gen::inRange(5, 25);
    for (int i = 0; i < steps; ++i) step(t, durability, model);
    expect_same(t, model);
    t.reopen();
    expect_same(t, model);
    RC_ASSERT(!t.leaks());
  });
  EXPECT_TRUE(ok);
}

TEST_P(Histories, AnyHistoryReadsLikeAMap) { expect_a_map(GetParam(), Durability::sync); }
TEST_P(Histories, AnyHistoryOfAMemoryBucketReadsLikeAMap) { expect_a_map(GetParam(), Durability::memory); }

// Histories of versions. Each key's versions, newest first; nullopt: a delete marker.
struct ModelVersion {
  std::string id;  // "" while the bucket has no versioning, else "null" or an id
  std::optional<std::string> value;
};
struct VersionModel {
  Versioning versioning = Versioning::off;
  std::map<std::string, std::vector<ModelVersion>> keys;

  static bool is_null(const ModelVersion& v) { return v.id.empty() || v.id == "null"; }
  void add(const std::string& key, ModelVersion version) {
    auto& all = keys[key];
    if (versioning != Versioning::enabled) std::erase_if(all, is_null);
    all.insert(all.begin(), std::move(version));
  }
  std::string name(const ModelVersion& v) const {
    return versioning != Versioning::off && v.id.empty() ? "null" : v.id;
  }
};

void change_versions(Rig& t, VersionModel& model) {
  const std::string key = *rc::gen::elementOf(std::vector<std::string>{"a", "a/b", "a/c", std::string("\0", 1), "z"});
  switch (*rc::gen::inRange(0, 8)) {
    case 0: {
      auto next = *rc::gen::elementOf(std::vector<Versioning>{Versioning::enabled, Versioning::suspended});
      RC_ASSERT(t.set_versioning("b", next).has_value());
      model.versioning = next;
      return;
    }
    case 1:
    case 2: {
      auto removed = t.remove("b", key);
      RC_ASSERT(removed.has_value());
      RC_ASSERT(removed->delete_marker == (model.versioning != Versioning::off));
      if (model.versioning == Versioning::off) {
        model.keys.erase(key);
      } else {
        model.add(key, {removed->version_id, std::nullopt});
      }
      return;
    }
    case 3:
    case 4: {
      auto& all = model.keys[key];
      if (all.empty()) return;
      size_t at = *rc::gen::inRange<size_t>(0, all.size());
      std::string id = model.name(all[at]);
      RC_ASSERT(t.remove_version("b", key, id.empty() ? "null" : id).has_value());
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    default: {
      std::string value = random_value();
      auto stored = t.put("b", key, value);
      RC_ASSERT(stored.has_value());
      model.add(key, {stored->version_id, value});
    }
  }
}

void expect_versions(Rig& t, const VersionModel& model) {
  expect_counted(t);
  ListVersionsRequest request{.prefix = {}, .delimiter = {}, .key_marker = {}, .version_id_marker = {}};
  request.max_keys = *rc::gen::inRange(1, 8);
  std::vector<std::tuple<std::string, std::string, bool, bool>> wanted, got;
  size_t current = 0;
  for (const auto& [key, all] : model.keys) {
    for (const auto& v : all) wanted.emplace_back(key, model.name(v), &v == &all.front(), !v.value);
    if (!all.empty() && all.front().value) ++current;
  }
  for (int pages = 0; pages < 200; ++pages) {
    auto page = t.list_versions("b", request);
    RC_ASSERT(page.has_value());
    for (const auto& e : page->versions) {
      got.emplace_back(e.key, e.info.version_id, e.latest, e.info.delete_marker);
    }
    if (!page->truncated) break;
    request.key_marker = page->next_key_marker;
    request.version_id_marker = page->next_version_id_marker;
  }
  RC_ASSERT(got == wanted);
  RC_ASSERT(t.list("b")->entries.size() == current);
  for (const auto& [key, all] : model.keys) {
    for (const auto& v : all) {
      auto value = t.get_version("b", key, v.id.empty() ? "null" : v.id);
      RC_ASSERT(value.has_value() == v.value.has_value());
      if (value) RC_ASSERT(*value == *v.value);
    }
    auto value = t.get("b", key);
    bool there = !all.empty() && all.front().value;
    RC_ASSERT(value.has_value() == there);
    if (there) RC_ASSERT(*value == *all.front().value);
  }
}

void expect_a_list_of_versions(const EngineUnderTest& engine, Durability durability) {
  bool ok = rc::check("any history of versions reads like a list of them", [&engine, durability] {
    const auto rig = engine.make();
    Rig& t = *rig;
    t.vary(*rc::gen::inRange<uint64_t>(0, 9));
    t.open();
    t.make_bucket("b", durability);
    VersionModel model;
    int steps = *rc::gen::inRange(5, 40);
    for (int i = 0; i < steps; ++i) change_versions(t, model);
    expect_versions(t, model);
    if (durability == Durability::sync) {
      t.crash(*rc::gen::arbitrary<uint64_t>());
    } else {
      t.reopen();
    }
    expect_versions(t, model);
    RC_ASSERT(!t.leaks());
  });
  EXPECT_TRUE(ok);
}

TEST_P(Histories, AnyHistoryOfVersionsReadsLikeAListOfThem) { expect_a_list_of_versions(GetParam(), Durability::sync); }
TEST_P(Histories, AnyHistoryOfVersionsInAMemoryBucketReadsLikeAListOfThem) {
  expect_a_list_of_versions(GetParam(), Durability::memory);
}

ON_ALL_ENGINES(Histories);

}  // namespace
}  // namespace verbena::store::conformance

// A short run by default; RC_PARAMS="max_success=1000" for a long one.
int main(int argc, char** argv) {
  ::setenv("RC_PARAMS", "max_success=30", /*overwrite=*/0);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
