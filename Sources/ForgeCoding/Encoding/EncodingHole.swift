/// The place of a nested container: its bytes are written elsewhere and put here when the value around it ends.
struct EncodingHole {
    var offset: Int
    let child: EncodingNode
}

extension EncodingNode {
    /// A node for a value that may be written at any time until this one ends.
    ///
    /// The caller has written the key, if there is one; the value's place is the end of the sink.
    func openHole(_ step: PathStep) -> EncodingNode {
        let inner = ByteSink(capacity: 64, maximumDepth: sink.maximumDepth, userInfo: sink.userInfo)
        let child = EncodingNode(sink: inner, parent: self, step: step, depth: depth + 1)
        holes.append(EncodingHole(offset: sink.count, child: child))
        return child
    }

    /// Puts the bytes of every nested container into their places.
    ///
    /// - Complexity: O(bytes of this value), however many holes there are.
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
        // From the last hole to the first: what lies behind a hole moves up by what all the holes up to it take.
        for hole in holes.reversed() {
            sink.move(hole.offset..<end, to: hole.offset + extra)
            extra -= hole.child.sink.count
            sink.write(hole.child.sink, at: hole.offset + extra)
            end = hole.offset
        }
        holes.removeAll()
    }
}
