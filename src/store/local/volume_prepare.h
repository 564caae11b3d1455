// Makes volumes ahead of their use: a file that is allocated whole and then written once, with zeros. Its space is kept
// like freed space (volume_reuse.cc), so a new blob's first write there is in place, too: it extends no file and
// converts no extent, and fdatasync is a flush.
//
// A volume is made when small runs have taken space since the last one was made, and little is kept. Large runs do not
// ask for one: the cost to the file system's records is small for each of their bytes, and zeros are bytes written
// twice. The thread rests as long as it writes, so that it takes at most half of the disk's time. A volume that a crash
// leaves unfinished has no mark in the index: the next start cuts and removes it.
#pragma once

#include <thread>

#include "store/local/index.h"
#include "store/local/volume.h"

namespace verbena::store::local {

class VolumePreparer {
 public:
  VolumePreparer(Index& index, Volumes& volumes) : index_(index), volumes_(volumes) {}
  ~VolumePreparer() { stop(); }
  VolumePreparer(const VolumePreparer&) = delete;
  VolumePreparer& operator=(const VolumePreparer&) = delete;

  void start();
  void stop();

 private:
  void loop();
  Result<void> prepare();

  Index& index_;
  Volumes& volumes_;
  std::thread thread_;
};

}  // namespace verbena::store::local
