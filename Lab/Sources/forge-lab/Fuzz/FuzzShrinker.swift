/// Shrinks a failing sequence of calls and simplifies its calls.
struct FuzzShrinker {
    /// Whether a sequence still fails.
    let fails: ([FuzzOperation]) throws -> Bool

    /// A failing sequence that succeeds if any run of calls is removed or any call is simplified further.
    func shrink(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        while true {
            let shorter = try leavingOut(current)
            let plainer = try simplifying(shorter)
            if plainer == current { return current }
            current = plainer
        }
    }

    /// Removes runs of half the length, a quarter and so on down to single calls (delta debugging).
    private func leavingOut(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        var length = max(1, current.count / 2)
        while true {
            var start = 0
            var isShorter = false
            while start < current.count {
                var candidate = current
                candidate.removeSubrange(start..<min(start + length, current.count))
                if try !candidate.isEmpty && fails(candidate) {
                    current = candidate
                    isShorter = true
                } else {
                    start += length
                }
            }
            if length > 1 {
                length /= 2
            } else if !isShorter {
                return current
            }
        }
    }

    private func simplifying(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        for index in current.indices {
            var isPlainer = true
            while isPlainer {
                isPlainer = false
                for plainer in current[index].plainer {
                    var candidate = current
                    candidate[index] = plainer
                    guard try fails(candidate) else { continue }
                    current = candidate
                    isPlainer = true
                    break
                }
            }
        }
        return current
    }
}
