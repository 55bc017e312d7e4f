/// The position of a nested container whose bytes are inserted when the enclosing value ends.
struct EncodingHole {
    var offset: Int
    let child: EncodingNode
}

extension EncodingNode {
    /// A node for a nested value that may be written until this one ends.
    ///
    /// Call it after writing the key, if there is one: the value is inserted at the current end of the sink.
    func openHole(_ step: PathStep) -> EncodingNode {
        let inner = ByteSink(capacity: 64, maximumDepth: sink.maximumDepth, userInfo: sink.userInfo)
        let child = EncodingNode(sink: inner, parent: self, step: step, depth: depth + 1)
        holes.append(EncodingHole(offset: sink.count, child: child))
        return child
    }

    /// Inserts the bytes of every nested container.
    ///
    /// - Complexity: O(bytes of this value), for any number of holes.
    func fillHoles() {
        var extra = 0
        for hole in holes {
            hole.child.finish()
            hole.child.end()
            extra += hole.child.sink.count
            if sink.failure == nil { sink.failure = hole.child.sink.failure }
        }
        var end = sink.count
        sink.extend(by: extra)
        // Backwards, so that every byte moves once: bytes behind a hole shift by the total size of the holes before
        // them.
        for hole in holes.reversed() {
            sink.move(hole.offset..<end, to: hole.offset + extra)
            extra -= hole.child.sink.count
            sink.write(hole.child.sink, at: hole.offset + extra)
            end = hole.offset
        }
        holes.removeAll()
    }
}
