/// The encoder of one value, and the storage that its containers share.
///
/// A value's bytes are the tail of a sink. Sequential nested values share the sink and reuse one node. A nested
/// container or a super encoder may be filled at any later time: each gets a sink of its own, which is inserted into
/// this one when the value ends.
final class EncodingNode: Encoder {
    enum Form {
        case nothing, single, keyed, unkeyed
    }

    enum State {
        /// The value is being encoded at the end of the sink.
        case active
        /// A nested value is being encoded.
        case busy
        /// The value has ended; later writes of a retained container are dropped, as by Foundation's encoders.
        case finished
        /// The container conflicts with an earlier one; every write throws.
        case invalid
    }

    let sink: ByteSink
    var parent: EncodingNode?
    var step: PathStep
    private(set) var depth: Int
    private(set) var state = State.active
    private(set) var form = Form.nothing
    private var error: (any Error)?

    /// The offset of the value in the sink, and its number of entries.
    private(set) var start: Int
    private(set) var count = 0

    /// The keys so far.
    var keyFilter = KeyFilter()
    var keyHashes: Set<Int>?

    /// The entry that the current one replaces.
    var replaced: EncodedEntry?
    var deferred: [DeferredContainer] = []

    /// The value that was encoded under the key of this nested container or super encoder before; empty if none was.
    fileprivate var earlier: [UInt8] = []

    /// False once ``deferred`` or ``earlier`` has been set. Most values need neither, and looking at these two costs a
    /// check of exclusive access each.
    private var isPlain = true

    /// Whether a single value replaces the container: it belongs to a super encoder for the key of the container.
    fileprivate var isReplaceable = false

    /// A node reused for successive nested values.
    private var spare: EncodingNode?

    init(sink: ByteSink, parent: EncodingNode?, step: PathStep, depth: Int) {
        self.sink = sink
        self.parent = parent
        self.step = step
        self.depth = depth
        start = sink.count
    }

    var userInfo: [CodingUserInfoKey: Any] { sink.userInfo.mapValues { $0 } }

    var codingPath: [any CodingKey] {
        let above = parent?.codingPath ?? []
        return step.codingKey.map { above + [$0] } ?? above
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(KeyedEncoding(node: opened(.keyed)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        UnkeyedEncoding(node: opened(.unkeyed))
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        SingleValueEncoding(node: self)
    }

    /// This node as a container of a form; otherwise returns a node whose writes throw.
    func opened(_ wanted: Form) -> EncodingNode {
        if form == wanted { return self }
        guard state == .active else { return closedContainer(wanted) }
        guard form == .nothing else {
            return invalidContainer(wanted, "a second container of another kind for one value")
        }
        guard depth < sink.maximumDepth else { return invalidContainer(wanted, WireFailure.tooDeep.reason) }
        let major = wanted == .keyed ? MajorType.map : MajorType.array
        if !isPlain, let first = earlier.first, first & MajorType.mask != major {
            return invalidContainer(wanted, "a container for a key that has a value of another kind")
        }
        form = wanted
        start = sink.count
        sink.append(MajorType.map)  // Placeholder; close() writes the head.
        if !isPlain, !earlier.isEmpty { appendEarlierEntries() }
        return self
    }

    /// Appends the entries of the value that the key had before.
    private func appendEarlierEntries() {
        var offset = 0
        do throws(WireFailure) {
            count = try ByteReader(earlier[...]).entryCount(&offset, itemsPerEntry: form == .keyed ? 2 : 1) ?? 0
        } catch {
            return assertionFailure("unreadable bytes of this encoder's own: \(error.reason)")
        }
        let entries = earlier[offset...]
        sink.append(entries.span)
        keyFilter = .full
        earlier = []
    }

    /// Whether to accept a write of a container of this form; false if the value has ended.
    @inline(__always)
    func acceptsWrite(_ wanted: Form) throws -> Bool {
        if state == .active, form == wanted { return true }
        return try acceptsLateWrite()
    }

    private func acceptsLateWrite() throws -> Bool {
        switch state {
        case .active, .finished: return false
        case .busy: throw invalid(Self.busyReason)
        case .invalid: throw error ?? invalid(Self.busyReason)
        }
    }

    private static let busyReason = "the container was written to while one of its values was being encoded"

    func invalid(_ reason: String, step: PathStep = .none) -> EncodingError {
        let path = codingPath + (step.codingKey.map { [$0] } ?? [])
        // Errors get logged and values may be secrets, so the error carries no value.
        return .invalidValue(WithheldValue(), .init(codingPath: path, debugDescription: reason))
    }

    /// A container that cannot be written: writes throw, or are dropped if its value has ended.
    func closedContainer(_ form: Form) -> EncodingNode {
        switch state {
        case .busy: return invalidContainer(form, Self.busyReason)
        case .active, .finished, .invalid:
            let node = discardingNode(form)
            node.state = state == .invalid ? .invalid : .finished
            node.error = error
            return node
        }
    }

    private func invalidContainer(_ form: Form, _ reason: String) -> EncodingNode {
        let error = invalid(reason)
        if sink.failure == nil { sink.failure = error }
        let node = discardingNode(form)
        node.state = .invalid
        node.error = error
        return node
    }

    /// A node whose output is discarded.
    private func discardingNode(_ form: Form) -> EncodingNode {
        let nowhere = ByteSink(capacity: 16, maximumDepth: sink.maximumDepth, userInfo: sink.userInfo)
        let node = EncodingNode(sink: nowhere, parent: self, step: .none, depth: depth)
        node.form = form
        return node
    }

    // MARK: Nested values

    @inline(__always)
    func countEntry() { count &+= 1 }

    func uncountEntry() { count -= 1 }

    /// Appends the value at `step` in this container; truncates the sink if it fails.
    @inline(__always)
    func encode<Value: Encodable>(_ value: Value, step: @autoclosure () -> PathStep, entry: Int) throws {
        do throws(WireFailure) {
            if try sink.appendKnown(value, depth: depth &+ 1) { return }
        } catch {
            sink.truncate(to: entry)
            throw invalid(error.reason, step: step())
        }
        try encodeSelf(value, step: step(), entry: entry)
    }

    private func encodeSelf<Value: Encodable>(_ value: Value, step: PathStep, entry: Int) throws {
        var child = takeChild(step)
        state = .busy
        defer {
            state = .active
            if isKnownUniquelyReferenced(&child) {
                child.parent = nil
                spare = child
            } else {
                child.state = .finished
            }
        }
        do {
            try value.encode(to: child)
            child.finish()
        } catch {
            child.abandon()
            sink.truncate(to: entry)
            throw error
        }
    }

    private func takeChild(_ step: PathStep) -> EncodingNode {
        guard let child = spare else {
            return EncodingNode(sink: sink, parent: self, step: step, depth: depth + 1)
        }
        spare = nil
        child.parent = self
        child.step = step
        child.state = .active
        child.form = .nothing
        child.start = sink.count
        child.count = 0
        child.resetKeys()
        return child
    }

    private func dropReplaceable() {
        isReplaceable = false
        abandon()
        sink.truncate(to: start)
        form = .nothing
        earlier = []
    }

    /// Appends a value that shares this node.
    func encodeInPlace<Value: Encodable>(_ value: Value) throws {
        if isReplaceable { dropReplaceable() }
        guard form == .nothing else { throw invalid("a second value in a single-value container") }
        do throws(WireFailure) {
            if try sink.appendKnown(value, depth: depth) {
                form = .single
                return
            }
        } catch {
            sink.truncate(to: start)
            throw invalid(error.reason)
        }
        do {
            try value.encode(to: self)
        } catch {
            abandon()
            sink.truncate(to: start)
            form = .nothing
            throw error
        }
        if form == .nothing { appendEmpty() }
    }

    func encodeNilInPlace() throws {
        guard try acceptsWrite(form) else { return }
        if isReplaceable { dropReplaceable() }
        guard form == .nothing else { throw invalid("a second value in a single-value container") }
        sink.appendNull()
        form = .single
    }

    // MARK: End of the value

    /// Ends the value: inserts the deferred containers and writes the number of entries into the head. An empty value
    /// becomes an empty map.
    func finish() {
        switch form {
        case .keyed: close(MajorType.map)
        case .unkeyed: close(MajorType.array)
        case .nothing: appendEmpty()
        case .single: break
        }
    }

    @inline(__always)
    private func close(_ major: UInt8) {
        if !isPlain, !deferred.isEmpty { insertDeferredContainers() }
        sink.setHead(major, count: count, at: start)
    }

    private func appendEmpty() {
        if earlier.isEmpty {
            sink.append(MajorType.map)
        } else {
            sink.append(earlier.span)
        }
        form = .single
    }

    /// Discards a failed value and its nested containers.
    private func abandon() {
        if !isPlain {
            for container in deferred { container.child.end() }
            deferred.removeAll()
        }
        count = 0
        resetKeys()
    }

    @inline(__always)
    private func resetKeys() {
        keyFilter = KeyFilter()
        if keyHashes != nil { keyHashes = nil }
        if replaced != nil { replaced = nil }
    }

    /// Ends the node; later writes through a retained container are dropped.
    func end() {
        abandon()
        state = .finished
    }
}

/// Replaces the value in encoding errors.
struct WithheldValue: CustomStringConvertible {
    var description: String { "(value withheld)" }
}

/// An earlier map entry with the same key.
struct EncodedEntry {
    var range: Range<Int>
    /// The offset of the value.
    var value: Int
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
        let entry = sink.count
        let fingerprint = sink.appendKey(key.stringValue)
        var bits = keyFilter
        if bits.insert(fingerprint) || count >= Self.bitsLimit { noteRepetition(entry) }
        keyFilter = bits
        return entry
    }

    /// Ends an entry after its value.
    @inline(__always)
    func endEntry() {
        countEntry()
        if replaced != nil { dropReplaced() }
    }

    /// The node of a nested container or a super encoder under a key.
    ///
    /// As with `JSONEncoder`, a container adds to what the key has already, be it a container or an encoded value; the
    /// single value of a super encoder replaces it.
    func deferEntry(_ key: some CodingKey, isSuper: Bool) -> EncodingNode {
        let entry = beginEntry(key)
        var earlier: [UInt8] = []
        if let existing = replaced {
            if let index = existing.deferredIndex, deferred[index].child.form != .single {
                replaced = nil
                sink.truncate(to: entry)
                deferred[index].child.isReplaceable = isSuper
                return deferred[index].child
            }
            earlier = sink.bytes(existing.value..<existing.range.upperBound)
        }
        let child = deferContainer(.key(key))
        if !earlier.isEmpty {
            child.earlier = earlier
            child.isPlain = false
        }
        endEntry()
        return child
    }

    /// Looks up the key at the end of the sink, which the filter may have seen before.
    private func noteRepetition(_ entry: Int) {
        if count >= Self.bitsLimit {
            let hash = hashOfKey(entry)
            if keyHashes == nil { keyHashes = hashesOfKeys() }
            guard keyHashes?.insert(hash).inserted == false else { return }
        }
        let name = sink.bytes(entry..<sink.count)
        forEachEntry { existing, key in
            // A key is a whole item, head and text, so that equal keys have equal bytes.
            if key.elementsEqual(name) { replaced = existing }
        }
    }

    /// The hash of the key at an offset, up to the end of the sink.
    private func hashOfKey(_ entry: Int) -> Int { sink.hash(entry..<sink.count) }

    private func hashesOfKeys() -> Set<Int> {
        var hashes = Set<Int>(minimumCapacity: 2 * count)
        forEachEntry { entry, _ in hashes.insert(sink.hash(entry.range.lowerBound..<entry.value)) }
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

    /// Calls `body` with each entry and the item of its key.
    private func forEachEntry(_ body: (EncodedEntry, ArraySlice<UInt8>) -> Void) {
        let bytes = sink.bytes(start..<sink.count)
        let reader = ByteReader(bytes[...])
        var offset = 1
        var next = 0
        for _ in 0..<count {
            let first = offset
            do throws(WireFailure) {
                _ = try reader.key(&offset)
                let value = offset
                let isDeferred = next < deferred.count && deferred[next].offset == start + value
                if !isDeferred { try reader.skip(&offset, .max) }
                let entry = EncodedEntry(
                    range: (start + first)..<(start + offset), value: start + value,
                    deferredIndex: isDeferred ? next : nil)
                if isDeferred { next += 1 }
                body(entry, bytes[first..<value])
            } catch {
                return assertionFailure("unreadable bytes of this encoder's own: \(error.reason)")
            }
        }
    }
}

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
        isPlain = false
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
