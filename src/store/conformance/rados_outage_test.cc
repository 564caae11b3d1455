// What cannot be read in the cluster stops nothing else. On the cluster that tests/rados starts.
#include "store/conformance/on_rados.h"
#include "store/logic/keys.h"

namespace verbena::store::conformance {
namespace {

using rados::InvalidationBus;

class OutagesOnRados : public OnRados {
 protected:
  // Two buckets with an object each.
  void SetUp() override {
    OnRados::SetUp();
    if (IsSkipped()) return;
    t = std::make_unique<RadosRig>();
    t->open();
    for (const char* name : {"a", "b"}) {
      t->make_bucket(name);
      ASSERT_TRUE(t->put(name, "k", name));
    }
  }
  void TearDown() override { t.reset(); }
  rados::Engine& engine() { return parts_of(*t); }
  std::string row(std::string_view object, const std::string& name) {
    return engine().run(engine().registry.row(std::string(object), name)).value();
  }
  void set_row(std::string_view object, const std::string& name, const std::string& value) {
    librados::ObjectWriteOperation op;
    const std::map<std::string, rados::Buffer> rows = {{name, rados::to_buffer(value)}};
    op.omap_set(rows);
    ASSERT_EQ(engine().run(engine().cluster->write(rados::Cluster::Pool::index, std::string(object), std::move(op))),
              0);
  }
  // While that row is damaged, the bucket of that name is refused alone.
  void expect_refused_alone(std::string_view object, const std::string& name, const std::string& bucket) {
    const std::string before = row(object, name), other = bucket == "a" ? "b" : "a";
    ASSERT_FALSE(before.empty());
    set_row(object, name, "x");
    EXPECT_TRUE(engine().run(engine().reload(InvalidationBus::everything)));
    EXPECT_EQ(t->get(other, "k").value_or("nothing"), other);
    EXPECT_EQ(t->get(bucket, "k").error(), Errc::corrupt_object);
    EXPECT_TRUE(engine().run(engine().bus->tell(InvalidationBus::everything)));
    EXPECT_TRUE(engine().bus->fresh());
    EXPECT_EQ(t->run(t->engine().buckets())->size(), 2u);
    const auto late = rados::RadosStore::connect(t->options);  // one that starts meanwhile
    ASSERT_TRUE(late) << late.error();
    EXPECT_TRUE(t->run((*late)->open(other, "k")));
    EXPECT_EQ(t->run((*late)->open(bucket, "k")).error(), Errc::corrupt_object);
    set_row(object, name, before);
    EXPECT_EQ(t->get(bucket, "k").value_or("nothing"), bucket);
    EXPECT_TRUE(t->run((*late)->open(bucket, "k")));
    EXPECT_TRUE(t->store().may_keep(bucket) && (*late)->may_keep(bucket));
  }

  std::unique_ptr<RadosRig> t;
};

// Every server answered nothing at all when it read everything again, and none could start.
TEST_F(OutagesOnRados, ABucketWhoseRecordIsDamagedIsRefusedAlone) {
  expect_refused_alone(rados::bucket_object(engine().buckets.find("a")->id), "r", "a");
}

TEST_F(OutagesOnRados, ABucketWhoseNameIsDamagedIsRefusedAlone) {
  expect_refused_alone(rados::root_object, keys::bucket("a"), "a");
}

}  // namespace
}  // namespace verbena::store::conformance
