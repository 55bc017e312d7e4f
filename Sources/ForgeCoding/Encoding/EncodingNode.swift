/// One value while it encodes itself: the encoder that it is handed, and what its containers write through.
///
/// A value's bytes are the tail of a sink. Values inside it follow one another, so they share the sink, and the node of one
/// is taken again for the next. A nested container or a super encoder may be filled at any later time, before or after its
/// neighbours: each gets a sink of its own, and a hole in this one that is filled when the value ends.
final class EncodingNode: Encoder {
    enum Form {
        case nothing, single, keyed, unkeyed
    }

    enum State {
        /// The value encodes itself; what is written goes to the end of the sink.
        case active
        /// A value within this one encodes itself.
        case busy
        /// The value has ended; what a container that was kept writes is dropped, as by Foundation's encoders.
        case finished
        /// The container should not have been asked for; every write throws why.
        case refused
    }

    let sink: ByteSink
    var parent: EncodingNode?
    var step: PathStep
    private(set) var depth: Int
    private(set) var state = State.active
    private(set) var form = Form.nothing
    private var refusal: (any Error)?

    /// Where the value begins in the sink, and how many entries it has so far.
    private(set) var start: Int
    private(set) var count = 0

    /// What is known of the keys so far.
    var keyBits = KeyBits()
    var keyHashes: Set<Int>?

    /// The entry that the one being written replaces.
    var replaced: EncodedEntry?
    var holes: [EncodingHole] = []

    /// A node that has served a value within this one, to be used again.
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

    /// This node as a container of a form; a node whose writes throw if it is one of another form already.
    func opened(_ wanted: Form) -> EncodingNode {
        if form == wanted { return self }
        guard state == .active else { return unavailable(wanted) }
        guard form == .nothing else {
            return refusing(wanted, "a second container of another kind for one value")
        }
        guard depth < sink.maximumDepth else { return refusing(wanted, WireFailure.tooDeep.reason) }
        form = wanted
        start = sink.count
        sink.append(MajorType.map)
        return self
    }

    /// Whether what a container of this form writes now counts: not for a value that has ended.
    @inline(__always)
    func acceptsWrite(_ wanted: Form) throws -> Bool {
        if state == .active, form == wanted { return true }
        return try acceptsLateWrite()
    }

    private func acceptsLateWrite() throws -> Bool {
        switch state {
        case .active, .finished: return false
        case .busy: throw invalid(Self.busyReason)
        case .refused: throw refusal ?? invalid(Self.busyReason)
        }
    }

    private static let busyReason = "a container is written to while a value within it encodes itself"

    func invalid(_ reason: String, step: PathStep = .none) -> EncodingError {
        let path = codingPath + (step.codingKey.map { [$0] } ?? [])
        // The payload is for the value; errors get logged, and values may be secrets.
        return .invalidValue(EncodingRefusal(), .init(codingPath: path, debugDescription: reason))
    }

    /// What a container gives out that cannot take anything: writes to it throw, or are dropped if its value has ended.
    func unavailable(_ form: Form) -> EncodingNode {
        switch state {
        case .busy: return refusing(form, Self.busyReason)
        case .active, .finished, .refused:
            let node = detached(form)
            node.state = state == .refused ? .refused : .finished
            node.refusal = refusal
            return node
        }
    }

    private func refusing(_ form: Form, _ reason: String) -> EncodingNode {
        let error = invalid(reason)
        if sink.failure == nil { sink.failure = error }
        let node = detached(form)
        node.state = .refused
        node.refusal = error
        return node
    }

    /// A node that writes to nowhere.
    private func detached(_ form: Form) -> EncodingNode {
        let nowhere = ByteSink(capacity: 16, maximumDepth: sink.maximumDepth, userInfo: sink.userInfo)
        let node = EncodingNode(sink: nowhere, parent: self, step: .none, depth: depth)
        node.form = form
        return node
    }

    // MARK: Values within

    @inline(__always)
    func countEntry() { count &+= 1 }

    func uncountEntry() { count -= 1 }

    /// Appends a value that stands at `step` in this container, and takes back what was written if it fails.
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

    /// Appends a value in this one's place.
    func encodeInPlace<Value: Encodable>(_ value: Value) throws {
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
            state = .active
            throw error
        }
        if form == .nothing { appendEmpty() }
    }

    /// Appends an item in this node's place with `body`, if nothing is there yet.
    @inline(__always)
    func writeInPlace(_ body: () throws(WireFailure) -> Void) throws {
        guard try acceptsWrite(form) else { return }
        guard form == .nothing else { throw invalid("a second value in a single-value container") }
        do throws(WireFailure) {
            try body()
        } catch {
            sink.truncate(to: start)
            throw invalid(error.reason)
        }
        form = .single
    }

    // MARK: The end

    /// Closes the value: fills the holes and writes the number of entries into its head. What wrote nothing is an empty map.
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
        if !holes.isEmpty { fillHoles() }
        sink.setHead(major, count: count, at: start)
    }

    private func appendEmpty() {
        sink.append(MajorType.map)
        form = .single
    }

    /// Ends a value that failed: what was nested in it goes with it.
    private func abandon() {
        for hole in holes { hole.child.end() }
        holes.removeAll()
        count = 0
        resetKeys()
    }

    @inline(__always)
    private func resetKeys() {
        keyBits = KeyBits()
        if keyHashes != nil { keyHashes = nil }
        if replaced != nil { replaced = nil }
    }

    /// Ends a node that is kept by somebody: what it writes from now on is dropped.
    func end() {
        abandon()
        state = .finished
    }
}

/// What errors carry in place of the value that could not be encoded.
struct EncodingRefusal: CustomStringConvertible {
    var description: String { "(value withheld)" }
}
