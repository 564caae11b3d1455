// The model of RADOS against what is known of a real cluster, by librados's own calls.
#include <gtest/gtest.h>
#include <rados/librados.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "simulator/rados_model.h"

namespace verbena::simulator {
namespace {

using librados::bufferlist;
using Rows = std::map<std::string, bufferlist>;
using Wanted = std::map<std::string, std::pair<bufferlist, int>>;

bufferlist bytes(const std::string& text) {
  bufferlist list;
  list.append(text.data(), static_cast<unsigned>(text.size()));
  return list;
}

// A client of its own.
struct Client {
  explicit Client(const std::string& user = "client", int timeout_s = 10) {
    rados.init(user.c_str());
    rados.conf_set("rados_osd_op_timeout", std::to_string(timeout_s).c_str());
    rados.connect();
    rados.ioctx_create("index", pool);
    pool.set_namespace(::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  ~Client() { pool.close(); }

  int run(const std::string& object, librados::ObjectWriteOperation& op, uint64_t* version = nullptr) {
    auto* completion = librados::Rados::aio_create_completion(nullptr, nullptr);
    pool.aio_operate(object, completion, &op, librados::OPERATION_FULL_TRY);
    return end(completion, version);
  }
  int run(const std::string& object, librados::ObjectReadOperation& op, uint64_t* version = nullptr) {
    auto* completion = librados::Rados::aio_create_completion(nullptr, nullptr);
    pool.aio_operate(object, completion, &op, nullptr);
    return end(completion, version);
  }
  int set_row(const std::string& object, const std::string& row, const std::string& value) {
    librados::ObjectWriteOperation op;
    op.omap_set(Rows{{row, bytes(value)}});
    return run(object, op);
  }
  std::string row(const std::string& object, const std::string& row) {
    librados::ObjectReadOperation op;
    Rows rows;
    op.omap_get_vals_by_keys({row}, &rows, nullptr);
    return run(object, op) < 0 || rows.empty() ? "" : rows[row].to_str();
  }
  static int end(librados::AioCompletion* completion, uint64_t* version = nullptr) {
    completion->wait_for_complete();
    const int code = completion->get_return_value();
    if (version != nullptr) *version = completion->get_version64();
    completion->release();
    return code;
  }

  librados::Rados rados;
  librados::IoCtx pool;
};

class RadosModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model.add_pool("index");
    model.add_pool("coded", true);
    model.start(1);
    model.set_weather({});
  }
  void TearDown() override {
    model.set_weather({});
    model.set_full(false);
  }
  RadosModel& model = RadosModel::get();
};

TEST_F(RadosModelTest, AVectorIsMadeWholeOrNotAtAll) {
  Client client;
  ASSERT_EQ(client.set_row("o", "a", "1"), 0);
  librados::ObjectWriteOperation op;
  op.omap_set(Rows{{"b", bytes("2")}});
  op.omap_cmp(Wanted{{"a", {bytes("other"), LIBRADOS_CMPXATTR_OP_EQ}}}, nullptr);
  EXPECT_EQ(client.run("o", op), -ECANCELED);
  EXPECT_EQ(client.row("o", "b"), "");
  librados::ObjectWriteOperation second;
  second.omap_set(Rows{{"a", bytes("2")}});
  second.omap_cmp(Wanted{{"a", {bytes("1"), LIBRADOS_CMPXATTR_OP_EQ}}}, nullptr);
  EXPECT_EQ(client.run("o", second), 0) << "comparisons see the object as it was";
  EXPECT_EQ(client.row("o", "a"), "2");
}

TEST_F(RadosModelTest, AnAbsentRowIsAnEmptyOne) {
  Client client;
  librados::ObjectWriteOperation op;
  op.omap_cmp(Wanted{{"a", {bytes(""), LIBRADOS_CMPXATTR_OP_EQ}}}, nullptr);
  op.omap_set(Rows{{"a", bytes("1")}});
  EXPECT_EQ(client.run("o", op), -ENOENT) << "the object has to be there";
  librados::ObjectWriteOperation made;
  made.create(false);
  made.omap_cmp(Wanted{{"a", {bytes(""), LIBRADOS_CMPXATTR_OP_EQ}}}, nullptr);
  made.omap_set(Rows{{"a", bytes("1")}});
  EXPECT_EQ(client.run("o", made), 0);
  EXPECT_EQ(client.row("o", "a"), "1");
}

TEST_F(RadosModelTest, ObjectsAreMadeExclusivelyAndRemovedOnce) {
  Client client;
  EXPECT_EQ(client.pool.create("o", true), 0);
  EXPECT_EQ(client.pool.create("o", true), -EEXIST);
  EXPECT_EQ(client.pool.create("o", false), 0);
  EXPECT_EQ(client.pool.remove("o"), 0);
  EXPECT_EQ(client.pool.remove("o"), -ENOENT);
}

TEST_F(RadosModelTest, APageOfRowsIsOrderedAndBounded) {
  Client client;
  Rows rows;
  for (int i = 0; i < 3000; ++i) rows["p" + std::to_string(10'000 + i)] = bytes("x");
  rows["\xff"] = bytes("last");
  librados::ObjectWriteOperation op;
  op.omap_set(rows);
  ASSERT_EQ(client.run("o", op), 0);
  librados::ObjectReadOperation read, rest;
  Rows page;
  bool more = false;
  read.omap_get_vals2("p10003", "p", 5000, &page, &more, nullptr);
  EXPECT_EQ(client.run("o", read), 0);
  EXPECT_EQ(page.size(), 1024u);
  EXPECT_EQ(page.begin()->first, "p10004");
  EXPECT_TRUE(more);
  rest.omap_get_vals2("p12999", "", 5000, &page, &more, nullptr);
  EXPECT_EQ(client.run("o", rest), 0);
  EXPECT_EQ(page.size(), 1u);
  EXPECT_FALSE(more);
}

TEST_F(RadosModelTest, VersionsOfAnObjectGrowAndReadsTellThem) {
  Client client;
  uint64_t first = 0, second = 0, read = 0;
  librados::ObjectWriteOperation one, two, nothing;
  one.setxattr("e", bytes("1"));
  two.setxattr("e", bytes("2"));
  nothing.assert_exists();
  EXPECT_EQ(client.run("o", one, &first), 0);
  EXPECT_EQ(client.run("o", two, &second), 0);
  EXPECT_EQ(client.run("o", nothing), 0);
  librados::ObjectReadOperation op;
  bufferlist value;
  op.cmpxattr("e", LIBRADOS_CMPXATTR_OP_EQ, bytes("2"));
  op.getxattr("e", &value, nullptr);
  EXPECT_EQ(client.run("o", op, &read), 1) << "what a comparison that holds leaves";
  EXPECT_EQ(value.to_str(), "2");
  EXPECT_LT(first, second);
  EXPECT_EQ(second, read);
}

TEST_F(RadosModelTest, AnErasureCodedPoolHasNoRows) {
  Client client;
  librados::IoCtx coded;
  ASSERT_EQ(client.rados.ioctx_create("coded", coded), 0);
  bool aligned = false;
  EXPECT_EQ(coded.pool_requires_alignment2(&aligned), 0);
  EXPECT_TRUE(aligned);
  client.pool.close();
  ASSERT_EQ(client.rados.ioctx_create("coded", client.pool), 0);
  EXPECT_EQ(client.set_row("o", "a", "1"), -EOPNOTSUPP);
}

TEST_F(RadosModelTest, AFullClusterTakesRowsAndRemovalsAlone) {
  Client client;
  ASSERT_EQ(client.pool.create("o", true), 0);
  model.set_full(true);
  EXPECT_EQ(client.pool.create("another", true), -ENOSPC);
  EXPECT_EQ(client.set_row("o", "a", "1"), 0);
  EXPECT_EQ(client.pool.remove("o"), 0);
}

TEST_F(RadosModelTest, AListingNamesEveryObjectOnce) {
  Client client;
  std::set<std::string> made, listed;
  for (int i = 0; i < 50; ++i) {
    made.insert("o" + std::to_string(i));
    ASSERT_EQ(client.pool.create("o" + std::to_string(i), true), 0);
  }
  for (auto it = client.pool.nobjects_begin(); it != client.pool.nobjects_end(); ++it) {
    EXPECT_TRUE(listed.insert(it->get_oid()).second);
  }
  EXPECT_EQ(listed, made);
}

TEST_F(RadosModelTest, ACallThatTimesOutIsMadeAfterAll) {
  Client client("slow", 1), other("other", 10);
  ASSERT_EQ(client.set_row("o", "a", "1"), 0);
  model.cut("slow", std::chrono::milliseconds(1800));
  EXPECT_EQ(client.set_row("o", "a", "late"), -ETIMEDOUT);
  EXPECT_EQ(other.row("o", "a"), "1");
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_EQ(other.row("o", "a"), "late");
}

TEST_F(RadosModelTest, ACallWhoseAnswerWasLostIsMadeOnceOrTwice) {
  Client client;
  const auto make = [&](uint64_t remembered) {
    model.set_weather({});
    (void)client.pool.remove("o");
    model.set_weather({.answer_lost = 65'535, .calls_remembered = remembered});
    librados::ObjectWriteOperation op;
    op.create(true);
    return client.run("o", op);
  };
  EXPECT_EQ(make(3000), 0);
  EXPECT_EQ(make(0), -EEXIST) << "by itself";
}

class Watcher final : public librados::WatchCtx2 {
 public:
  Watcher(Client& client, bool answers) : client_(client), answers_(answers) {
    EXPECT_EQ(client_.pool.watch2("o", &handle, this), 0);
  }
  void handle_notify(uint64_t id, uint64_t cookie, uint64_t, bufferlist& message) override {
    heard = heard + message.to_str();
    bufferlist said = bytes("yes");
    if (answers_) client_.pool.notify_ack("o", id, cookie, said);
  }
  void handle_error(uint64_t, int code) override { error = code; }

  uint64_t handle = 0;
  std::string heard;
  std::atomic<int> error = 0;

 private:
  Client& client_;
  const bool answers_;
};

TEST_F(RadosModelTest, ANotifyWaitsForEachWatcherOrItsTime) {
  Client one("one"), two("two");
  ASSERT_EQ(one.pool.create("o", true), 0);
  Watcher first(one, true), second(two, false);
  const auto notify = [&](size_t answered, size_t silent) {
    auto* completion = librados::Rados::aio_create_completion(nullptr, nullptr);
    bufferlist message = bytes("m"), reply;
    one.pool.aio_notify("o", completion, message, 300, &reply);
    const int code = Client::end(completion);
    std::vector<librados::notify_ack_t> answers;
    std::vector<librados::notify_timeout_t> missing;
    one.pool.decode_notify_response(reply, &answers, &missing);
    EXPECT_EQ(answers.size(), answered);
    EXPECT_EQ(missing.size(), silent);
    return code;
  };
  EXPECT_EQ(notify(1, 1), -ETIMEDOUT);
  EXPECT_EQ(two.pool.unwatch2(second.handle), 0);
  EXPECT_EQ(notify(1, 0), 0);
  EXPECT_EQ(first.heard, "mm");
  std::list<obj_watch_t> watchers;
  EXPECT_EQ(one.pool.list_watchers("o", &watchers), 0);
  EXPECT_EQ(watchers.size(), 1u);
  EXPECT_EQ(one.pool.unwatch2(first.handle), 0);
  one.rados.watch_flush();
  two.rados.watch_flush();
}

TEST_F(RadosModelTest, AWatchEndsWithItsObjectAndWithTheBlocklist) {
  Client one("one"), two("two");
  ASSERT_EQ(one.pool.create("o", true), 0);
  Watcher first(one, true);
  Watcher second(two, true);
  EXPECT_GT(one.pool.watch_check(first.handle), 0);
  model.shut_out("two");
  EXPECT_EQ(two.set_row("o", "a", "1"), -ESHUTDOWN);
  ASSERT_EQ(one.pool.remove("o"), 0);
  for (int i = 0; i < 100 && first.error == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(first.error, -ENOTCONN);
  EXPECT_LT(one.pool.watch_check(first.handle), 0);
  one.pool.unwatch2(first.handle);
  two.pool.unwatch2(second.handle);
  one.rados.watch_flush();
  two.rados.watch_flush();
}

}  // namespace
}  // namespace verbena::simulator
