/// The position of a nested container whose bytes are inserted when the enclosing value ends.
struct DeferredContainer {
    var offset: Int
    let child: EncodingNode
}

extension EncodingNode {
    /// A node for a nested value that may be written until this one ends.
    ///
    /// Call it after writing the key, if there is one: the value is inserted at the current end of the sink.
    func deferContainer(_ step: PathStep) -> EncodingNode {
        let inner = ByteSink(capacity: 64, maximumDepth: sink.maximumDepth, userInfo: sink.userInfo)
        let child = EncodingNode(sink: inner, parent: self, step: step, depth: depth + 1)
        deferred.append(DeferredContainer(offset: sink.count, child: child))
        return child
    }

    /// Inserts the bytes of every nested container.
    ///
    /// - Complexity: O(bytes of this value), for any number of them.
    func insertDeferredContainers() {
        var extra = 0
        for container in deferred {
            container.child.finish()
            container.child.end()
            extra += container.child.sink.count
            if sink.failure == nil { sink.failure = container.child.sink.failure }
        }
        var end = sink.count
        sink.extend(by: extra)
        // Backwards, so that every byte moves once: bytes after a container shift by the total size of the containers
        // before it.
        for container in deferred.reversed() {
            sink.move(container.offset..<end, to: container.offset + extra)
            extra -= container.child.sink.count
            sink.write(container.child.sink, at: container.offset + extra)
            end = container.offset
        }
        deferred.removeAll()
    }
}
