// SPDX-License-Identifier: Apache-2.0
// A queue of items that carry their own links: an item is in one queue at most, and nothing is ever allocated. The
// policies of the simulator queue samples by index, the RAM tier queues what it holds by address.
//
//   struct Items {                                       // where links and sizes are found
//     using Item = SampleIndex;
//     static constexpr Item kNone = kNoSample;
//     QueueLink<Item>& link(Item item);
//     std::uint64_t bytes(Item item) const;
//   };
//   ItemQueue<Items> queue;
//   queue.push_front(items, sample);                     // the newest
//   queue.remove(items, queue.back());                   // the oldest
//
// Thread-safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::cache {

template <typename Item>
struct QueueLink {
  Item newer = {};
  Item older = {};
};

template <typename Items>
class ItemQueue {
 public:
  using Item = typename Items::Item;

  void push_front(Items& items, Item item) {
    items.link(item) = {Items::kNone, front_};
    (front_ != Items::kNone ? items.link(front_).newer : back_) = item;
    front_ = item;
    ++count_;
    bytes_ += items.bytes(item);
  }

  void remove(Items& items, Item item) {
    const QueueLink<Item> link = items.link(item);
    (link.newer != Items::kNone ? items.link(link.newer).older : front_) = link.older;
    (link.older != Items::kNone ? items.link(link.older).newer : back_) = link.newer;
    --count_;
    bytes_ -= items.bytes(item);
  }

  void move_to_front(Items& items, Item item) {
    remove(items, item);
    push_front(items, item);
  }

  [[nodiscard]] Item back() const { return back_; }  // kNone: the queue is empty
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Item front_ = Items::kNone;
  Item back_ = Items::kNone;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace headrace::cache
