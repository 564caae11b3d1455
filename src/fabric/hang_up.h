// The end of a Link whose server has stopped to take messages, or may never come to read them.
#pragma once

namespace verbena::fabric {

// A Link over a connection (fabric/local, fabric/tcp). Over RDMA devices there is none: there a message is all that
// tells the server of the end.
class ConnectedLink {
 public:
  // The server learns that the client is gone: without room for a message, and without reading those that wait before
  // it. send() and poll() say `closed` from now on. What is lent stays valid, and is to be revoked as ever. Called by
  // the thread that may use the link.
  virtual void hang_up() = 0;

 protected:
  ~ConnectedLink() = default;
};

}  // namespace verbena::fabric
