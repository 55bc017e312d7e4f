/// A type of value whose calls are counted.
protocol Sample: Codable, Equatable, Sendable {
    /// A value that differs from those of all other numbers below 10,000.
    init(sample number: Int)
}

extension Int: Sample {
    init(sample number: Int) { self = number }
}

/// Of 32 characters.
extension String: Sample {
    init(sample number: Int) {
        let digits = String(number)
        self = String(repeating: "x", count: 32 - digits.count) + digits
    }
}

/// A struct of five fields.
struct Profile: Sample {
    var name: String
    var count: Int
    var ratio: Double
    var isOn: Bool
    var tags: [String]

    init(sample number: Int) {
        name = "user-\(number)"
        count = number
        ratio = Double(number) / 3
        isOn = number.isMultiple(of: 2)
        tags = ["a", "b"]
    }
}
