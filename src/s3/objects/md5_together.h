// MD5s of small bodies that arrive on one core at about the same time, side by side in the vector unit's lanes: eight
// take 2.4 times as long as one (`micro_bench --benchmark_filter=md5_side_by_side`). Large bodies have helper threads
// (DigestsAside), which a small one would not repay.
#pragma once

#include "base/md5.h"
#include "base/task.h"

namespace verbena::s3 {

// Smaller bodies are digested at once, in less time than they would wait.
inline constexpr size_t md5_together_min = 16 * KiB;

// md5.update(bytes), together with the other calls on this thread that come before the loop has no more of them ready.
// Both stay in their place until it returns. For executors of one thread (a core's).
Task<void> update_md5_together(Md5& md5, Bytes bytes);

}  // namespace verbena::s3
