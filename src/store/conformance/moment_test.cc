// Reads of several rows during changes are as of one moment: pages of versions, the parts of an upload, a version by
// its name. With concurrent threads, on every engine; any moment is right.
#include <map>
#include <set>
#include <thread>

#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

// Calls of one thread into a store that other threads use, too.
class Call {
 public:
  // The loop stays: the engine's threads may still be waking it.
  explicit Call(Rig& rig, std::string bucket = "b") : t_(rig), bucket_(std::move(bucket)) {}
  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  // An empty object with `serial` as its ETag.
  Result<ObjectInfo> put(const std::string& key, int serial) {
    VB_ASSIGN(auto writer, run(t_.engine().create(bucket_, key, 0)));
    ObjectInfo info;
    info.etag = std::to_string(serial);
    return run(writer->commit(std::move(info), {}));
  }
  Result<Removed> remove(const std::string& key, std::string version_id = {}) {
    return run(t_.engine().remove(bucket_, key, {.version_id = std::move(version_id)}));
  }

 private:
  Rig& t_;
  const std::string bucket_;
  boost::asio::io_context& io_ = local::loop_that_stays();
};

class Moments : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    make();
  }
  void make() {
    t.make_bucket(bucket_);
    ASSERT_TRUE(t.set_versioning(bucket_, Versioning::enabled));
  }
  // Repeats with new buckets until enough pages were read to make a race likely.
  template <class Change, class Check>
  void again_and_again(Change change, Check check) {
    constexpr int buckets_max = 12, pages_wanted = 1500;
    for (int i = 1; i <= buckets_max && pages_ < pages_wanted && !HasFailure(); ++i) {
      if (i > 1) {
        bucket_ = "b" + std::to_string(i);
        make();
      }
      while_changing(change, check);
    }
  }
  static std::string key(int i) { return "k" + std::to_string(10 + i); }

  // Reads pages here until `change`, on another thread, has ended or is stopped.
  template <class Change, class Check>
  void while_changing(Change change, Check check) {
    std::atomic<bool> stop{false}, ended{false};
    std::thread other([&] {
      Call caller(t, bucket_);
      change(caller, stop);
      ended = true;
    });
    while (!ended && !HasFailure()) check();
    stop = true;
    other.join();
  }

  std::string bucket_ = "b";
  int pages_ = 0;
};

constexpr int keys_max = 16;

// Checks that a page of versions is possible at one moment. A key's serials grow by one with each overwrite.
void expect_whole(const VersionPage& page, bool from_the_start) {
  std::set<std::string> ids;
  for (size_t i = 0; i < page.versions.size(); ++i) {
    const VersionEntry& entry = page.versions[i];
    EXPECT_TRUE(ids.insert(entry.info.version_id).second) << entry.key << ": there twice";
    const bool first = i == 0 || page.versions[i - 1].key != entry.key;
    if (first) {
      EXPECT_TRUE(entry.latest || (i == 0 && !from_the_start)) << entry.key << ": its newest is missing";
      continue;
    }
    EXPECT_FALSE(entry.latest) << entry.key << ": two are the latest";
    EXPECT_EQ(std::stoi(page.versions[i - 1].info.etag), std::stoi(entry.info.etag) + 1) << entry.key;
  }
}

// Keys are overwritten one after the other, repeatedly: at any moment the keys before some position are one ahead.
TEST_P(Moments, APageOfVersionsIsOneMomentWhileKeysAreOverwritten) {
  constexpr int rounds = 55;
  const bool splits = std::string_view(GetParam().name) == "RadosSplitting";
  const auto overwrite = [](Call& caller, const std::atomic<bool>& stop) {
    for (int round = 1; round <= rounds; ++round) {
      for (int i = 0; i < keys_max && !stop; ++i) ASSERT_TRUE(caller.put(key(i), round));
    }
  };
  const auto check = [this, splits] {
    const auto page = t.list_versions(bucket_);
    ASSERT_TRUE(page) << describe(page.error());
    expect_whole(*page, true);
    std::map<std::string, int> newest;
    for (const auto& entry : page->versions) newest.try_emplace(entry.key, std::stoi(entry.info.etag));
    const int first = newest.empty() ? 0 : newest.begin()->second;
    int before = INT32_MAX;
    for (const auto& [name, serial] : newest) {
      if (splits) break;  // keys of different tablets: each as of one moment
      EXPECT_LE(serial, before) << name << " is ahead of the one before it";
      EXPECT_GE(serial, first - 1) << name << " is behind";
      before = serial;
    }
    EXPECT_TRUE(page->truncated || first <= 1 || newest.size() == size_t{keys_max}) << newest.size() << " keys";
    ++pages_;
  };
  again_and_again(overwrite, check);
  EXPECT_GE(pages_, 3);
}

TEST_P(Moments, SmallPagesAreOfOneMomentEach) {
  constexpr int rounds = 40;
  const auto overwrite = [](Call& caller, const std::atomic<bool>& stop) {
    for (int round = 1; round <= rounds; ++round) {
      for (int i = 0; i < keys_max && !stop; ++i) ASSERT_TRUE(caller.put(key(i), round));
    }
  };
  ListVersionsRequest request;  // in a new bucket, so that first pages begin at different positions
  const auto check = [this, &request] {
    request.max_keys = 1 + pages_ % 23;
    const auto page = t.list_versions(bucket_, request);
    ASSERT_TRUE(page) << describe(page.error());
    expect_whole(*page, false);
    request.key_marker = page->truncated ? page->next_key_marker : "";
    request.version_id_marker = page->truncated ? page->next_version_id_marker : "";
    ++pages_;
  };
  again_and_again(overwrite, check);
}

// A delete marker is added and removed repeatedly: the version below it moves from one table to the other, and back.
TEST_P(Moments, NoKeyIsMissingAndNoVersionLostWhileItGoesToAndFro) {
  std::map<std::string, std::string> ids;
  for (int i = 0; i < keys_max; ++i) {
    const auto stored = Call(t).put(key(i), 1);
    ASSERT_TRUE(stored);
    ids[key(i)] = stored->version_id;
  }
  const auto hide_and_show = [](Call& caller, const std::atomic<bool>& stop) {
    for (int round = 0; round < 60; ++round) {
      for (int i = 0; i < keys_max && !stop; ++i) {
        const auto marker = caller.remove(key(i));
        ASSERT_TRUE(marker);
        ASSERT_TRUE(caller.remove(key(i), marker->version_id));
      }
    }
  };
  const auto check = [this, &ids] {
    const auto page = t.list_versions("b");
    ASSERT_TRUE(page) << describe(page.error());
    std::set<std::string> seen, there;
    for (const auto& entry : page->versions) {
      EXPECT_TRUE(seen.insert(entry.info.version_id).second) << entry.key << ": there twice";
      EXPECT_EQ(entry.latest, there.insert(entry.key).second) << entry.key;
      EXPECT_TRUE(entry.info.delete_marker || entry.info.version_id == ids[entry.key]);
    }
    if (!page->truncated) {
      for (const auto& [name, id] : ids) EXPECT_TRUE(seen.contains(id)) << name << " is missing";
    }
    const std::string name = key(pages_++ % keys_max);
    const auto by_name = t.run(t.engine().stat("b", name, ids[name]));
    EXPECT_TRUE(by_name) << name << ": " << describe(by_name.error());
    const auto newest = t.run(t.engine().find_version("b", name, ""));
    EXPECT_TRUE(newest) << name << ": " << describe(newest.error());
  };
  while_changing(hide_and_show, check);
}

// An upload that is completed during the read has all of its parts, or does not exist any more.
TEST_P(Moments, AnUploadIsNeverWithoutTheParts) {
  for (int round = 0; round < 12; ++round) {
    const auto upload = t.start_upload("b", "k");
    ASSERT_TRUE(upload);
    std::vector<PartInfo> parts;
    for (int n = 1; n <= 3; ++n) {
      const auto part = t.put_part(*upload, n, "bytes of part " + std::to_string(n));
      ASSERT_TRUE(part);
      parts.push_back(*part);
    }
    const auto complete = [&](Call& caller, const std::atomic<bool>&) {
      ObjectInfo info;
      info.etag = "of-3";
      ASSERT_TRUE(caller.run(t.engine().complete_upload("b", "k", upload->upload_id, parts, info, {})));
    };
    const auto check = [&] {
      const auto page = t.run(t.engine().list_parts("b", "k", upload->upload_id, 0, 10));
      if (page) {
        EXPECT_EQ(page->parts.size(), 3u);
      } else {
        EXPECT_EQ(page.error(), Errc::no_such_upload);
      }
    };
    while_changing(complete, check);
  }
}

// The engines that read a page by one fetch.
class NearMoments : public Moments {};

// The renamed object goes past the others in a page, in either direction.
TEST_P(NearMoments, ARenamedObjectIsOnceInAPage) {
  t.make_bucket("renames");
  bucket_ = "renames";
  Call setup(t, bucket_);
  constexpr int others = 30;
  for (int i = 0; i < others; ++i) ASSERT_TRUE(setup.put(key(i), i));
  const std::string first = "a", last = "z";
  ASSERT_TRUE(setup.put(first, 0));
  const auto rename = [&](Call& caller, const std::atomic<bool>& stop) {
    for (int round = 0; round < 2000 && !stop; ++round) {
      const bool back = round % 2 != 0;
      RenameRequest request{.from = back ? last : first, .to = back ? first : last};
      ASSERT_TRUE(caller.run(t.engine().rename(bucket_, std::move(request))));
    }
  };
  const auto check = [&] {
    const auto page = t.run(t.engine().list(bucket_, {}));
    ASSERT_TRUE(page) << describe(page.error());
    ASSERT_EQ(page->entries.size(), others + 1u);
    EXPECT_NE(page->entries.front().key == first, page->entries.back().key == last);
  };
  while_changing(rename, check);
}

// As above, with round trips as looks, in which others run: without chance.
TEST(FarMoments, WhatChangesBetweenTwoRoundTripsIsNotMixed) {
  FarRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto spawn = [&t](auto task) {
    return boost::asio::co_spawn(t.io(), std::move(task), boost::asio::use_future);
  };
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Call(t).put("k" + std::to_string(10 + i), 1));
  for (int round = 0; round < 20; ++round) {
    auto listed = spawn(t.engine().list_versions("b", {}));
    auto writer = t.run(t.engine().create("b", "k" + std::to_string(29 - round), 0));
    auto stored = spawn((*writer)->commit({}, {}));
    t.io().restart();
    t.io().run();
    ASSERT_TRUE(stored.get());
    const auto page = listed.get();
    ASSERT_TRUE(page);
    ASSERT_FALSE(page->versions.empty());
    std::set<std::string> ids, names;
    for (const auto& entry : page->versions) {
      EXPECT_TRUE(ids.insert(entry.info.version_id).second);
      EXPECT_EQ(entry.latest, names.insert(entry.key).second) << entry.key;
    }
    // However short the pages are, they lead to the end.
    ListVersionsRequest request{.key_marker = page->next_key_marker, .version_id_marker = page->next_version_id_marker};
    for (bool more = page->truncated; more;) {
      const auto next = t.list_versions("b", request);
      ASSERT_TRUE(next);
      for (const auto& entry : next->versions) names.insert(entry.key);
      more = next->truncated;
      request.key_marker = next->next_key_marker;
      request.version_id_marker = next->next_version_id_marker;
    }
    EXPECT_EQ(names.size(), 20u);
  }
}

ON_ALL_ENGINES(Moments);
ON_THESE(NearMoments, near_engines());

}  // namespace
}  // namespace verbena::store::conformance
