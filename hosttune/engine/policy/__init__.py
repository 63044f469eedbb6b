"""What an administrator wants of the rules: policy, waivers, approvals."""
