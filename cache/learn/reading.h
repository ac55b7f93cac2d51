// SPDX-License-Identifier: Apache-2.0
// How the job reads along the order that was found: which ranks are here, batch size, number of workers.
//
//   const Reading reading = read_off(positions_in_the_sequence_of_their_opens);
//   lock.spec = spec_as_read(match.spec, reading, opens_per_sample);
//
// A worker process opens one batch after the other, each from its first sample to its last, in steps of the number of
// ranks. So the opens fall into runs. With the right number of ranks there are few of them; where they begin tells the
// batch size, how many are unfinished at once the number of workers. Thread-safety: pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headrace/cache/learn/evidence.h"

namespace headrace::cache {

struct Reading {
  std::uint64_t replicas = 1;  // ranks of the job, of which
  std::uint64_t first_rank = 0;
  std::uint64_t ranks = 1;    // these read here
  std::uint64_t batch = 1;    // positions, of one rank
  std::uint64_t workers = 1;  // of one rank
  friend bool operator==(const Reading&, const Reading&) = default;

  // What goes along the order by itself, in step with nothing else: a rank or, where there is one only, each of its
  // workers, since ranks that take whole batches in turn (accelerate) look like the workers of one.
  [[nodiscard]] std::uint64_t strands() const { return replicas > 1 ? replicas : workers; }
  [[nodiscard]] std::uint64_t strand_of(std::uint64_t position) const {
    return replicas > 1 ? position % replicas : position / batch % workers;
  }
  // How far a rank advances in the order with each of its opens, and the order as it is read here with each open.
  [[nodiscard]] double positions_per_open() const { return static_cast<double>(replicas) / static_cast<double>(ranks); }
};

// Opens that are looked at, at most: each worker of 8 ranks with 16 each has opened eight samples by then.
inline constexpr std::size_t kReadingOpens = 1024;

// `by_arrival`: positions opened in one epoch, each once, in the sequence of the opens; strays do no harm. Where the
// runs do not lie as the batches of workers do, the reading is of one worker whose batch covers how far opens are out
// of sequence, or is 1 where there is one run.
[[nodiscard]] Reading read_off(std::span<const std::uint64_t> by_arrival);

// The spec with the parameters of its reading. `opens_per_sample` of about 3 speaks for repeated augmentation.
[[nodiscard]] std::string spec_as_read(const std::string& spec, const Reading& reading, double opens_per_sample);

// The lowest position that is part of a stream, strays aside: where the reader was when it was first seen.
[[nodiscard]] std::uint64_t first_position(const Fit& fit);

}  // namespace headrace::cache
