/// A map entry that was written before under the same key.
struct EncodedEntry {
    var range: Range<Int>
    /// The index of the hole that stands for the value, if it is a nested container.
    var hole: Int?
}

extension EncodingNode {
    /// So many keys are kept apart by two words of bits; the hashes of more are kept in a set.
    private static let bitsLimit = 24

    /// Writes a key.
    ///
    /// - Returns: where the entry begins.
    @inline(__always)
    func beginEntry(_ key: some CodingKey) -> Int {
        var name = key.stringValue
        return name.withUTF8 { text in
            var bits = keyBits
            if bits.insert(KeyBits.fingerprint(text)) || count >= Self.bitsLimit { noteRepetition(text) }
            keyBits = bits
            let entry = sink.count
            sink.appendText(text)
            return entry
        }
    }

    /// Ends an entry whose value has been written.
    @inline(__always)
    func endEntry() {
        countEntry()
        if replaced != nil { dropReplaced() }
    }

    /// The nested container that already stands under a key, if there is one of that form.
    func nestedNode(_ key: some CodingKey, form: Form) -> EncodingNode? {
        guard !holes.isEmpty else { return nil }
        var name = key.stringValue
        guard let entry = name.withUTF8({ find($0) }), let hole = entry.hole, holes[hole].child.form == form else {
            return nil
        }
        return holes[hole].child
    }

    /// Looks whether a key that the bits take for known is there already.
    private func noteRepetition(_ name: UnsafeBufferPointer<UInt8>) {
        guard count >= Self.bitsLimit else {
            replaced = find(name)
            return
        }
        if keyHashes == nil { keyHashes = hashesOfKeys() }
        if keyHashes?.insert(Self.hash(name)).inserted == false { replaced = find(name) }
    }

    /// A seeded hash, so that nobody can prepare keys that collide.
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

    /// Takes out the entry that the one just written replaces: the last value of a key counts.
    private func dropReplaced() {
        guard let entry = replaced else { return }
        replaced = nil
        if let hole = entry.hole { holes.remove(at: hole).child.end() }
        sink.remove(entry.range)
        for index in holes.indices where holes[index].offset >= entry.range.upperBound {
            holes[index].offset -= entry.range.count
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
        var hole = 0
        for _ in 0..<count {
            let first = offset
            do throws(WireFailure) {
                let key = try reader.key(&offset)
                if hole < holes.count, holes[hole].offset == offset {
                    body(EncodedEntry(range: first..<offset, hole: hole), reader.bytes(key))
                    hole += 1
                } else {
                    try reader.skip(&offset, levels: .max)
                    body(EncodedEntry(range: first..<offset, hole: nil), reader.bytes(key))
                }
            } catch {
                return assertionFailure("unreadable bytes of this encoder's own: \(error.reason)")
            }
        }
    }
}
