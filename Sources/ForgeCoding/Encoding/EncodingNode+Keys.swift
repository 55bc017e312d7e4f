/// An earlier map entry with the same key.
struct EncodedEntry {
    var range: Range<Int>
    /// The index of the value's deferred container, if it is one.
    var deferredIndex: Int?
}

extension EncodingNode {
    /// The number of keys from which a set of hashes replaces the two-word filter.
    private static let bitsLimit = 24

    /// Writes a key.
    ///
    /// - Returns: the offset of the entry.
    @inline(__always)
    func beginEntry(_ key: some CodingKey) -> Int {
        var name = key.stringValue
        return name.withUTF8 { text in
            var bits = keyFilter
            if bits.insert(KeyFilter.fingerprint(text)) || count >= Self.bitsLimit { noteRepetition(text) }
            keyFilter = bits
            let entry = sink.count
            sink.appendText(text)
            return entry
        }
    }

    /// Ends an entry after its value.
    @inline(__always)
    func endEntry() {
        countEntry()
        if replaced != nil { dropReplaced() }
    }

    /// The existing nested container under a key, if it has that form.
    func nestedNode(_ key: some CodingKey, form: Form) -> EncodingNode? {
        guard !deferred.isEmpty else { return nil }
        var name = key.stringValue
        guard let entry = name.withUTF8({ find($0) }), let index = entry.deferredIndex,
            deferred[index].child.form == form
        else { return nil }
        return deferred[index].child
    }

    /// Looks up a key that the filter may have seen before.
    private func noteRepetition(_ name: UnsafeBufferPointer<UInt8>) {
        guard count >= Self.bitsLimit else {
            replaced = find(name)
            return
        }
        if keyHashes == nil { keyHashes = hashesOfKeys() }
        if keyHashes?.insert(Self.hash(name)).inserted == false { replaced = find(name) }
    }

    /// A seeded hash, which prevents crafted collisions.
    private static func hash(_ key: UnsafeBufferPointer<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(key))
        return hasher.finalize()
    }

    private func hashesOfKeys() -> Set<Int> {
        var hashes = Set<Int>(minimumCapacity: 2 * count)
        forEachEntry { _, key in hashes.insert(Self.hash(key)) }
        return hashes
    }

    /// Removes the entry that the new one replaces: the last value of a key wins.
    private func dropReplaced() {
        guard let entry = replaced else { return }
        replaced = nil
        if let index = entry.deferredIndex { deferred.remove(at: index).child.end() }
        sink.remove(entry.range)
        for index in deferred.indices where deferred[index].offset >= entry.range.upperBound {
            deferred[index].offset -= entry.range.count
        }
        uncountEntry()
    }

    private func find(_ name: UnsafeBufferPointer<UInt8>) -> EncodedEntry? {
        var found: EncodedEntry?
        forEachEntry { entry, key in
            if key.elementsEqual(name) { found = entry }
        }
        return found
    }

    private func forEachEntry(_ body: (EncodedEntry, UnsafeBufferPointer<UInt8>) -> Void) {
        let reader = ByteReader(UnsafeRawBufferPointer(start: sink.base, count: sink.count))
        var offset = start + 1
        var next = 0
        for _ in 0..<count {
            let first = offset
            do throws(WireFailure) {
                let key = try reader.key(&offset)
                if next < deferred.count, deferred[next].offset == offset {
                    body(EncodedEntry(range: first..<offset, deferredIndex: next), reader.bytes(key))
                    next += 1
                } else {
                    try reader.skip(&offset, levels: .max)
                    body(EncodedEntry(range: first..<offset, deferredIndex: nil), reader.bytes(key))
                }
            } catch {
                return assertionFailure("unreadable bytes of this encoder's own: \(error.reason)")
            }
        }
    }
}
