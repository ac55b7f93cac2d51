// SPDX-License-Identifier: Apache-2.0
// Keeps the peers of a running mount as its list names them: a file or a name that leads elsewhere by now is looked at
// again from time to time, and `headrace set MOUNT peers=LIST` gives another list.
//
//   PeerWatch watch({"file:/etc/peers"}, names, [&](const auto& peers) { return store.set_peers(peers); });
//   HEADRACE_TRY_DO(watch.change({"dns:train.svc"}));
//
// At each look the nodes compare their lists, too. A list that cannot be had, or that names nobody, changes nothing:
// the peers stay as they are, and state() says why. Nor does one that is not there in time, because its file server or
// name server does not answer; other words can be given meanwhile.
//
// Thread-safety: every function from any thread. Its thread, hr-peer-list, ends with it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/slow_calls.h"

namespace headrace::cli {

struct PeerWatchTimes {
  // A node that comes or goes is noticed within a minute, and a thousand nodes ask a name server 30 times a second.
  std::chrono::milliseconds every{30'000};
  // A list that has changed counts when it is the same at the next look: it may be a file that is being written, or a
  // name server that has forgotten a node for a moment.
  std::chrono::milliseconds settle{2'000};
  // A resolver asks the next name server after 5 s (resolv.conf(5)). Who waits meanwhile is the control socket.
  std::chrono::milliseconds patience{6'000};
};

class PeerWatch {
 public:
  using Names = std::vector<std::string>;
  using Use = std::function<io::Status(const Names& peers)>;

  // `words`: of --peers, looked at for the first time at once; `names`: what the store was opened with. `use` may
  // block.
  PeerWatch(Names words, Names names, Use use, PeerWatchTimes times = {});
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // Other words from now on. Errors: those of list_peers() and of `use`, and kTimedOut: the list is not there in time;
  // nothing has changed then. Blocks.
  [[nodiscard]] io::Status change(const Names& words);
  struct State {
    Names words;
    std::string failure;  // why the last look brought no list; empty: it did
  };
  [[nodiscard]] State state() const;

 private:
  void run();
  [[nodiscard]] io::Result<Names> list(const Names& words);
  [[nodiscard]] std::chrono::milliseconds look(bool is_first);
  void note_failure(const std::string& failure);

  const Use use_;
  const PeerWatchTimes times_;
  io::SlowCalls slow_{"hr-peer-words"};
  io::Mutex change_mutex_;  // one change at a time; before mutex_
  Names used_ HEADRACE_GUARDED_BY(change_mutex_);
  Names seen_ HEADRACE_GUARDED_BY(change_mutex_);  // at the last look

  mutable io::Mutex mutex_;
  io::CondVar ended_;
  bool ends_ HEADRACE_GUARDED_BY(mutex_) = false;
  State state_ HEADRACE_GUARDED_BY(mutex_);
  std::thread thread_;  // last: uses all of the above
};

}  // namespace headrace::cli
