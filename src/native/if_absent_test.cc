// PUT_MANY of what is to be stored only if it is not there.
#include "native/test_batches.h"

namespace verbena::native {
namespace {

class IfAbsentTest : public BatchTest {};

// Two workers that save the same block: the second one's bytes stay where they are.
TEST_F(IfAbsentTest, AnObjectThatIsThereIsNotFetchedToBeStoredIfAbsent) {
  immediate_ = false;
  const auto present = [] { return metrics::counter("verbena_native_put_present_total", "").value(); };
  std::ranges::fill(memory_, std::byte{'n'});
  store_.put("bucket", "there", "old");
  const auto if_absent = [](const char* key, uint64_t at, uint64_t size) {
    return Item{key, {0, at, size}, {}, wire::field_if_none_match, 0, "*"};
  };
  for (const uint64_t size : {uint64_t{100}, uint64_t{20'000}}) {
    store_.clear("bucket");
    store_.put("bucket", "there", "old");
    const uint64_t before = present();
    window_.reads = 0;
    window_.readable = size;  // the bytes of `there` cannot even be read
    const auto put = ask(wire::Type::put_many, head(), {if_absent("new", 0, size), if_absent("there", size, size)});
    ASSERT_EQ(put.entries.size(), 2u);
    EXPECT_EQ(put.entries[0].code, Errc::ok);
    EXPECT_EQ(put.entries[1].code, Errc::precondition_failed);
    EXPECT_EQ(window_.reads, 1) << "of the new one alone";
    EXPECT_EQ(present() - before, 1u);
    EXPECT_TRUE(store_.contains("bucket", "new"));
  }
}

}  // namespace
}  // namespace verbena::native
