// SPDX-License-Identifier: Apache-2.0
// Which bound is named for which figures. tests/end_to_end/diagnose_names_the_bound.py constructs the cases themselves.
#include "headrace/cli/doctor/diagnosis.h"

#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cli/doctor/readers.h"

namespace diagnosis_test {

using headrace::cli::Bound;
using headrace::cli::diagnose;
using headrace::cli::Diagnosis;
using headrace::cli::LoaderSeen;
using headrace::cli::Measured;
using headrace::cli::name_of;
using headrace::cli::ReaderWatch;

namespace {

// A source that gives `direct` samples per second to `workers` that read one after the other, and 1000 ahead; two cores
// that decode a sample in 2 ms.
Measured source_of(std::uint32_t workers, double direct) {
  return {.workers = workers,
          .direct = {.samples_per_second = direct},
          .source = {.samples_per_second = 1000},
          .decode = {.samples_per_second = 1000, .cpu_seconds = 0.002}};
}

// The same, watched through a mount.
Measured loader_of(const LoaderSeen& loader) {
  Measured measured = source_of(4, 100);
  measured.has_loader = true;
  measured.loader = loader;
  return measured;
}

Bound bound_of(const LoaderSeen& loader) {
  return diagnose(loader_of(loader)).bound;
}

}  // namespace

TEST_CASE("a source that answers late bounds few workers and many") {
  const Diagnosis few = diagnose(source_of(2, 50));
  CHECK(few.bound == Bound::kSource);
  CHECK(few.text.find("takes 40.0 ms to read, so 2 loader workers get 48 samples/s") != std::string::npos);
  CHECK(few.text.find("they get 1000") != std::string::npos);  // reading ahead, decoding bounds them
  CHECK(diagnose(source_of(16, 400)).bound == Bound::kSource);
  CHECK(diagnose(source_of(64, 1600)).bound == Bound::kDecoding);  // more than two cores decode
  CHECK(diagnose(source_of(2, 100'000)).bound == Bound::kDecoding);
  Measured no_images = source_of(2, 100'000);
  no_images.decode = {};
  CHECK(diagnose(no_images).bound == Bound::kSource);
}

TEST_CASE("a loader that reads otherwise than it was told waits because of the order, and the order is named") {
  LoaderSeen loader{.samples_per_second = 100, .order = "torch-distributed:seed=7", .stray_ratio = 0.7, .readers = 4};
  loader.waiting = 0.8;
  const Diagnosis wrong = diagnose(loader_of(loader));
  CHECK(wrong.bound == Bound::kOrder);
  CHECK(wrong.text.find("70% of the opens were not what torch-distributed:seed=7 says, which was given") !=
        std::string::npos);
  loader.stray_ratio = 0.1;  // somebody else looks at the folder
  CHECK(bound_of(loader) == Bound::kMemory);
  loader.order_known = false;
  loader.given_up = "sequential";
  loader.search = "searching all seeds: 1.00G of 26.0G tested";
  const Diagnosis unknown = diagnose(loader_of(loader));
  CHECK(unknown.bound == Bound::kOrder);
  CHECK(unknown.text.find("sequential, was given up") != std::string::npos);
  CHECK(unknown.text.find("headrace is searching all seeds: 1.00G of 26.0G tested.") != std::string::npos);
}

TEST_CASE("a loader of a mount that has stopped reading ahead waits because of that") {
  LoaderSeen loader{.samples_per_second = 100, .order = "sequential", .readers = 4};
  loader.waiting = 0.8;
  loader.pause = "nothing is read ahead for 1200 more opens";
  const Diagnosis paused = diagnose(loader_of(loader));
  CHECK(paused.bound == Bound::kOrder);
  CHECK(paused.text.find("nothing is read ahead for 1200 more opens") != std::string::npos);
}

TEST_CASE("what most of the readers' time goes into is the bound") {
  const LoaderSeen seen{.samples_per_second = 100, .readers = 4};
  LoaderSeen loader = seen;
  loader.busy = 0.9;
  loader.cpu_seconds_per_sample = 0.004;
  CHECK(bound_of(loader) == Bound::kDecoding);
  loader.cpu_seconds_per_sample = 0.04;
  CHECK(bound_of(loader) == Bound::kLoader);
  loader.busy = 0.1;
  CHECK(bound_of(loader) == Bound::kConsumer);
  loader.waiting = 0.8;
  CHECK(bound_of(loader) == Bound::kMemory);  // the source could give ten times as much
  loader.order_known = false;
  CHECK(bound_of(loader) == Bound::kOrder);
  loader.samples_per_second = 900;
  CHECK(bound_of(loader) == Bound::kSource);
  loader.order_known = true;
  loader.peer_ratio = 0.6;
  loader.slowest_peer = "n2:11311, ok, 99% of its answers within 131.1 ms, 1.0 MiB/s";
  CHECK(bound_of(loader) == Bound::kPeers);
  CHECK(diagnose(loader_of(loader)).text.find("n2:11311, ok, 99%") != std::string::npos);
  loader.peer_ratio = 0.4;
  CHECK(bound_of(loader) == Bound::kSource);
  loader.order_known = false;
  loader.shortage = "programs wait for memory";
  CHECK(bound_of(loader) == Bound::kMemory);
  loader.shortage = "";
  loader.lost_ratio = 0.5;
  CHECK(bound_of(loader) == Bound::kMemory);
  loader.samples_per_second = 0;
  CHECK(bound_of(loader) == Bound::kNothingRead);
}

TEST_CASE("where the readers cannot be seen, what lay in memory decides") {
  CHECK(bound_of({.samples_per_second = 100, .hit_ratio = 0.95}) == Bound::kNotStorage);
  CHECK(bound_of({.samples_per_second = 900, .hit_ratio = 0.5}) == Bound::kSource);
  for (int bound = 0; bound <= static_cast<int>(Bound::kNotStorage); ++bound) {
    CHECK_FALSE(name_of(static_cast<Bound>(bound)).empty());
  }
}

TEST_CASE("a process that computes is told from one that sleeps") {
  const auto watch = [](bool computes) {
    const pid_t child = ::fork();
    if (child == 0) {
      while (computes) static_cast<void>(::getppid());
      ::pause();
      ::_exit(0);
    }
    ReaderWatch readers;
    for (int look = 0; look < 4; ++look) {
      readers.note({child});
      ::usleep(50'000);
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return readers.times();
  };
  const headrace::cli::ReaderTimes busy = watch(true);
  CHECK(busy.readers == 1);
  CHECK(busy.cpu_seconds + busy.core_seconds > busy.seconds / 2);  // it waits for a core where others have them
  const headrace::cli::ReaderTimes idle = watch(false);
  CHECK(idle.readers == 1);
  CHECK(idle.cpu_seconds + idle.core_seconds < idle.seconds / 2);
}

}  // namespace diagnosis_test
